//! Reserves one core of the machine for a process that is measured.
//!
//! Threads and processes inherit the CPU affinity of the thread that starts them, so only that of the
//! thread that starts everything is changed.

/// No core could be reserved.
#[derive(Debug, thiserror::Error)]
pub enum CoresError {
    #[error("a core of its own for one process needs two; this process may use one")]
    TooFew,
    #[cfg(target_os = "linux")]
    #[error("cannot read or set the CPU affinity")]
    Affinity(#[from] rustix::io::Errno),
    #[cfg(not(target_os = "linux"))]
    #[error("processes get cores of their own on Linux only")]
    Unsupported,
}

type Result<T> = std::result::Result<T, CoresError>;

/// The cores that the process may use: one reserved core, and all others.
#[derive(Debug, PartialEq)]
pub struct Cores {
    kept: Vec<usize>,
    others: Vec<usize>,
}

impl Cores {
    /// Reserves one core: this thread, and what it starts from now on, run on the others.
    pub fn keep_one() -> Result<Self> {
        let cores = Self::divide(&allowed()?)?;
        use_only(&cores.others)?;
        Ok(cores)
    }

    fn divide(allowed: &[usize]) -> Result<Self> {
        // The last one: the first handles most interrupts.
        match allowed {
            [others @ .., last] if !others.is_empty() => {
                Ok(Self { kept: vec![*last], others: others.to_vec() })
            }
            _ => Err(CoresError::TooFew),
        }
    }

    /// Returns the number of cores that are not reserved.
    pub fn others(&self) -> usize {
        self.others.len()
    }

    /// Calls a function that starts a process or thread on the reserved core.
    pub fn start_apart<T>(&self, start: impl FnOnce() -> T) -> Result<T> {
        use_only(&self.kept)?;
        let started = start();
        use_only(&self.others)?;
        Ok(started)
    }
}

/// Returns the cores that this thread may use.
#[cfg(target_os = "linux")]
fn allowed() -> Result<Vec<usize>> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

#[cfg(target_os = "linux")]
fn use_only(cores: &[usize]) -> Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Result<Vec<usize>> {
    Err(CoresError::Unsupported)
}

#[cfg(not(target_os = "linux"))]
fn use_only(_: &[usize]) -> Result<()> {
    Err(CoresError::Unsupported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_core_is_reserved() {
        let expected = Cores { kept: vec![6], others: vec![1, 4] };
        assert_eq!(Cores::divide(&[1, 4, 6]).unwrap(), expected);
        for few in [&[][..], &[3]] {
            assert!(Cores::divide(few).unwrap_err().to_string().contains("needs two"));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_started_apart_has_the_reserved_core() {
        // In a separate thread, so that the affinity of other tests does not change.
        let test = std::thread::spawn(|| {
            let child = || std::thread::spawn(|| allowed().unwrap()).join().unwrap();
            let all = allowed().unwrap();
            let Ok(cores) = Cores::keep_one() else {
                assert_eq!(all.len(), 1);
                return;
            };
            assert_eq!(cores.start_apart(child).unwrap(), cores.kept);
            assert_eq!(child(), cores.others);
            assert_eq!([cores.others, cores.kept].concat(), all);
        });
        test.join().unwrap();
    }
}
