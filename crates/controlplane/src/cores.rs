//! Cores of this machine, one of them kept for a process that is measured.
//!
//! Threads and processes inherit the cores of the thread that starts them, so it is enough to change
//! those of the thread that starts everything.

use anyhow::{Result, bail};

/// One core, and all others.
#[derive(Debug, PartialEq)]
pub struct Cores {
    kept: Vec<usize>,
    others: Vec<usize>,
}

impl Cores {
    /// Leaves one core: this thread and all that it starts from now on do without it.
    pub fn keep_one() -> Result<Self> {
        let cores = Self::divide(&allowed()?)?;
        use_only(&cores.others)?;
        Ok(cores)
    }

    fn divide(allowed: &[usize]) -> Result<Self> {
        // The first one has most of the machine's interrupts.
        match allowed {
            [others @ .., last] if !others.is_empty() => {
                Ok(Self { kept: vec![*last], others: others.to_vec() })
            }
            _ => bail!("a core of its own for one process needs two; this process may use one"),
        }
    }

    /// How many all others share.
    pub fn others(&self) -> usize {
        self.others.len()
    }

    /// Starts something on the core that is kept.
    pub fn start_apart<T>(&self, start: impl FnOnce() -> T) -> Result<T> {
        use_only(&self.kept)?;
        let started = start();
        use_only(&self.others)?;
        Ok(started)
    }
}

/// The cores that this thread may use.
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
    bail!("processes get cores of their own on Linux only")
}

#[cfg(not(target_os = "linux"))]
fn use_only(_: &[usize]) -> Result<()> {
    bail!("processes get cores of their own on Linux only")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_core_is_kept() {
        let expected = Cores { kept: vec![6], others: vec![1, 4] };
        assert_eq!(Cores::divide(&[1, 4, 6]).unwrap(), expected);
        for few in [&[][..], &[3]] {
            assert!(Cores::divide(few).unwrap_err().to_string().contains("needs two"));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_started_apart_is_alone() {
        // In a thread of its own, so that other tests keep their cores.
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
