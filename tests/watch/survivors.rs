//! Programs that outlive `watch`. After the session, another user can put something in the place of the shared file.

use super::harness::Place;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The user id of the attacker. Files can have it without an account.
const ATTACKER: u32 = 54_321;

fn wait_for(path: &Path) {
    let until = Instant::now() + Duration::from_secs(120);
    while !path.exists() {
        assert!(Instant::now() < until, "{} does not appear", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The object that another user puts in the place of the shared file.
#[derive(Clone, Copy, Debug)]
enum Planted {
    Link,
    HardLink,
    /// A link to a file with the content of the shared file, as long as it. Only the identity differs.
    LinkToCopy,
}

#[test]
fn a_program_that_outlives_watch_writes_through_no_link_in_place_of_its_file() {
    let Some(place) = Place::new() else { return };
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped in part: only root can give the link to another user");
    }
    for planted in [Planted::Link, Planted::HardLink, Planted::LinkToCopy] {
        let name = |what: &str| place.file(&format!("{what}-{planted:?}"));
        let (begun, go, done, copy) = (name("begun"), name("go"), name("done"), name("copy"));
        // The survivor has one thread while it is watched. Its later threads need more memory of the shared file.
        let survivor = format!(
            "{} {} read 3 mark {} until {} threads 40 5 sleep 20; echo $? > {}.part; mv {}.part {}",
            place.file("linked").display(),
            place.data().display(),
            begun.display(),
            go.display(),
            done.display(),
            done.display(),
            done.display()
        );
        let script = format!(
            "({survivor}) > /dev/null 2>&1 & while [ ! -e {} ]; do sleep 0.02; done; cp --sparse=always \"$GDS_TOP_WATCH_FILE\" {}; echo \"$GDS_TOP_WATCH_FILE\"",
            begun.display(),
            copy.display()
        );
        let output = place.watch(&["-q"]).args(["sh", "-c", &script]).stderr(Stdio::piped()).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let shared = PathBuf::from(
            printed.lines().find(|line| line.contains("/calls-")).unwrap_or_else(|| panic!("{output:?}")),
        );
        assert!(!shared.exists() && !done.exists(), "the session has ended and the survivor runs: {printed}");

        let victim = match planted {
            Planted::LinkToCopy => copy,
            Planted::Link | Planted::HardLink => {
                let victim = name("victim");
                fs::write(&victim, "years of work").unwrap();
                victim
            }
        };
        fs::set_permissions(&victim, Permissions::from_mode(0o600)).unwrap();
        let image = |path: &Path| {
            let meta = fs::metadata(path).unwrap();
            (meta.len(), meta.blocks(), meta.mtime(), meta.mtime_nsec(), meta.mode())
        };
        let before = image(&victim);
        let folder = shared.parent().unwrap();
        fs::create_dir(folder).unwrap();
        match planted {
            // A hard link needs the same file system.
            Planted::HardLink if fs::hard_link(&victim, &shared).is_err() => {
                let moved = folder.join("victim");
                fs::copy(&victim, &moved).unwrap();
                fs::hard_link(&moved, &shared).unwrap();
            }
            Planted::HardLink => {}
            Planted::Link | Planted::LinkToCopy => symlink(&victim, &shared).unwrap(),
        }
        if is_root {
            lchown(folder, Some(ATTACKER), Some(ATTACKER)).unwrap();
            if fs::symlink_metadata(&shared).unwrap().is_symlink() {
                lchown(&shared, Some(ATTACKER), Some(ATTACKER)).unwrap();
            }
        }
        let linked = image(&shared);
        fs::write(&go, "").unwrap();
        wait_for(&done);
        let now = (image(&victim), image(&shared));
        let status = fs::read_to_string(&done).unwrap();
        fs::remove_dir_all(folder).unwrap();
        assert_eq!(now, (before, linked), "{planted:?}: the survivor wrote into a planted file");
        assert_eq!(status.trim(), "0", "{planted:?}: the survivor runs on");
    }
}
