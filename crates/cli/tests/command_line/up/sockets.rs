//! Listening sockets of `jindou up`, from `/proc`.

use std::collections::HashSet;
use std::fs;

use serde_json::Value;

use super::{Folder, Up};

/// Returns the addresses of a process's listening sockets in the form of `/proc`: `ADDRESS:PORT` in
/// hexadecimal digits.
fn listening(pid: u32) -> Vec<String> {
    let folder = format!("/proc/{pid}/fd");
    let inodes: HashSet<String> = fs::read_dir(folder)
        .expect("the process is there")
        .filter_map(|one| fs::read_link(one.ok()?.path()).ok())
        .filter_map(|link| {
            Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in table.lines().skip(1) {
            let columns: Vec<&str> = line.split_whitespace().collect();
            // The state 0A is LISTEN.
            if columns[3] == "0A" && inodes.contains(columns[9]) {
                found.push(columns[1].to_owned());
            }
        }
    }
    found
}

#[test]
fn it_listens_on_one_address_and_that_is_loopback() {
    let folder = Folder::new(&[]);
    let mut up = Up::start(&["--nodes", "1", "-o", "json"], &folder.0);
    let about: Value = serde_json::from_str(&up.line()).expect("one line of JSON");
    let port: u16 = about["address"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    assert_eq!(listening(up.child.id()), [format!("0100007F:{port:04X}")]);
    assert_eq!(about["scheduler"], true);
    assert_eq!(up.end().0, Some(0));
}
