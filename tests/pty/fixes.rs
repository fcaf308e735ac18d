//! Tests of fixes on the screens, with temporary roots: the checklist, a fix that is applied from its sheet, and the
//! terminal while sudo (a stand-in on PATH) asks for a password.

use crate::machine::{copy, fixture};
use crate::program::gds_top;
use crate::terminal::{PATIENCE, Terminal};
use gds_top::core::{Change, CheckId, FixId, FixPlan, FixPolicy, FixRisk, Needs};
use gds_top::fixes::{self, CommandState, Ended, Journal, Place, Stage};
use gds_top::machine::Root;
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT};
use signal_hook::iterator::Signals;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

impl Terminal {
    /// Leaves a sheet with Esc and waits until it is closed. A key directly after Esc would be read as a key with
    /// Alt.
    fn back_from(&mut self, sheet: &str) {
        self.keys("\u{1b}");
        self.wait("the checklist", |t| {
            let shown = t.shown();
            shown.contains("To GPUDirect Storage by") && !shown.contains(sheet)
        });
    }

    /// Quits and waits for the end, which needs no confirmation if nothing is running.
    fn quit(mut self) {
        let start = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < PATIENCE, "it does not end:\n{}", self.shown());
            self.keys("q");
            std::thread::sleep(Duration::from_millis(100));
        }
        self.is_whole("q");
    }
}

/// A copy of a captured machine in a directory with space for other files. It is not a capture any more, because nothing
/// is written into captures.
fn machine(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("root");
    copy(&fixture(name), &top);
    fs::remove_file(top.join("capture.json")).unwrap();
    (folder, top)
}

/// PATH with a stand-in for sudo as the first entry.
fn path_with_sudo(keep: &Path, script: &str) -> String {
    let tools = keep.join("tools");
    fs::create_dir(&tools).unwrap();
    let sudo = tools.join("sudo");
    fs::write(&sudo, script).unwrap();
    fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", tools.display(), std::env::var("PATH").unwrap())
}

#[test]
fn the_checklist_leads_to_a_fix_that_is_applied_streamed_and_taken_up_again() {
    let (_keep, root) = machine("p2pdma-two-steps");
    let boot = root.join("files/proc/sys/kernel/random/boot_id");
    fs::create_dir_all(boot.parent().unwrap()).unwrap();
    fs::write(&boot, "first\n").unwrap();
    let mut terminal = Terminal::start(&["--root", root.to_str().unwrap()], &[]);
    terminal.until("i checklist");
    terminal.keys("i");
    terminal.until("To GPUDirect Storage by");
    terminal.until("To GPUDirect Storage by p2pdma");
    terminal.until("▸ → Map the GPU's BAR1 statically");
    terminal.keys("\r");
    terminal.until("Fix Map the GPU's BAR1 statically");
    terminal.keys("a");
    terminal.until("not run, because this is a directory: sudo update-initramfs");
    terminal.until("it takes effect after this: sudo reboot");
    assert!(root.join("files/etc/modprobe.d/nvidia-p2pdma.conf").exists());
    terminal.back_from("Fix Map the GPU's BAR1 statically");
    terminal.keys("g");
    terminal.until("next: sudo update-initramfs -u -k all, then sudo reboot");
    terminal.quit();

    // After the reboot, the next start resumes the set-up.
    fs::write(&boot, "second\n").unwrap();
    let mut terminal = Terminal::start(&["--root", root.to_str().unwrap()], &[]);
    terminal.until("i checklist");
    terminal.keys("i");
    terminal.until("To GPUDirect Storage by");
    terminal.keys("g");
    terminal.until("after the reboot");
    terminal.quit();
}

#[test]
fn two_fixes_in_a_row_take_four_keys() {
    let (keep, root) = machine("p2pdma-two-steps");
    let path = path_with_sudo(keep.path(), "#!/bin/sh\n[ \"$1\" != -v ] || exit 0\nshift 2; exec \"$@\"\n");
    let mut terminal = Terminal::start(&["--root", root.to_str().unwrap()], &[("PATH", path.as_str())]);
    terminal.until("f next fix");
    terminal.keys("f");
    terminal.until("Fix Map the GPU's BAR1 statically");
    terminal.keys("a");
    terminal.until("it takes effect after this: sudo reboot");
    terminal.keys("f");
    terminal.until("Fix Enable P2PDMA in /etc/cufile.json");
    terminal.keys("a");
    let config = root.join("files/etc/cufile.json");
    terminal.wait("the second fix", |_| {
        fs::read_to_string(&config).is_ok_and(|text| text.contains("\"use_pci_p2pdma\": true"))
    });
    assert!(root.join("files/etc/modprobe.d/nvidia-p2pdma.conf").exists(), "the first fix stays");
    terminal.quit();
}

#[test]
fn a_fix_is_refused_on_the_screen_if_the_machine_changed_since_its_preview() {
    const OTHER: &str = "options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1;\"\n";
    let (_keep, root) = machine("p2pdma-two-steps");
    let mut terminal = Terminal::start(&["--root", root.to_str().unwrap()], &[]);
    terminal.until("i checklist");
    terminal.keys("i");
    terminal.until("▸ → Map the GPU's BAR1 statically");
    terminal.keys("\r");
    terminal.until("Fix Map the GPU's BAR1 statically");
    let folder = root.join("files/etc/modprobe.d");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("nvidia.conf"), OTHER).unwrap();
    terminal.keys("a");
    terminal.until("differ from the preview");
    terminal.quit();
    assert_eq!(fs::read_to_string(folder.join("nvidia.conf")).unwrap(), OTHER);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    assert!(!root.join(".gds-top").exists());
}

#[test]
fn sudo_gets_the_terminal_for_its_password_and_the_screen_comes_back() {
    let (keep, root) = machine("h200-vm-no-udev");
    let stamp = keep.path().join("stamp");
    let stamp = stamp.display();
    let script = format!(
        "#!/bin/sh\n\
         if [ \"$1\" = -v ]; then\n\
         exec </dev/tty >/dev/tty\n\
         stty -echo; printf '[sudo] password for tester: '; read word; stty echo; echo\n\
         [ \"$word\" = secret ] || {{ echo Sorry; exit 1; }}\n\
         : > {stamp}; exit 0\n\
         fi\n\
         [ -e {stamp} ] || {{ echo 'sudo: a password is required' >&2; exit 1; }}\n\
         shift 2; unset GDS_TOP_TEST_NOT_ROOT; exec \"$@\"\n"
    );
    let path = path_with_sudo(keep.path(), &script);
    let environment = [("PATH", path.as_str()), ("GDS_TOP_TEST_NOT_ROOT", "1")];
    let mut terminal = Terminal::sized(&["--root", root.to_str().unwrap()], &environment, (100, 30));
    terminal.until("f next fix");
    terminal.keys("f");
    terminal.until("Fix Write the udev record");

    // A wrong password: nothing is applied, and the screen reports this.
    terminal.keys("a");
    terminal.until("[sudo] password for tester:");
    assert!(!terminal.is_alternate(), "the terminal was lent");
    terminal.keys("wrong\n");
    terminal.until("sudo rejected you");
    assert!(terminal.is_alternate());
    let record = root.join("files/run/udev/data/b254:0");
    assert!(!record.exists());

    // sudo gets every letter of the correct password. Its earlier output is still on the terminal.
    terminal.keys("a");
    terminal.wait("sudo's second question", |t| t.shown().matches("[sudo] password for tester:").count() == 2);
    terminal.keys("secret\n");
    terminal.wait("the record", |_| record.exists());
    terminal.wait("the screen", Terminal::is_alternate);
    terminal.until("Fix Write the udev record");
    terminal.until("✔ ");
    assert_eq!(fs::read_to_string(&record).unwrap(), "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n");
    terminal.until("u undo");
    terminal.quit();
}

#[test]
fn the_checklist_fits_small_terminals() {
    for size in [(60, 20), (80, 24), (200, 60)] {
        let (_keep, root) = machine("proprietary-nvfs");
        let mut terminal = Terminal::sized(&["--root", root.to_str().unwrap()], &[], size);
        terminal.until("1 Env");
        let start = Instant::now();
        while !terminal.shown().contains("To GPUDirect Storage by") {
            assert!(start.elapsed() < PATIENCE, "{}", terminal.shown());
            terminal.keys("i");
            std::thread::sleep(Duration::from_millis(100));
        }
        terminal.until("→ Install the open kernel modules");
        terminal.keys("G");
        terminal.until("The proof: reads counted");
        terminal.quit();
    }
}

/// Text without spaces and without the frame of a sheet, because line breaks do not matter.
fn letters(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !"│╭╮╰╯─┌┐└┘▸█▐".contains(*c)).collect()
}

#[test]
fn the_checklist_on_the_screen_says_what_its_text_says_and_every_diff_can_be_reached() {
    for name in [
        "p2pdma-two-steps",
        "secure-boot",
        "proprietary-nvfs",
        "zst-symvers",
        "md-raid0-no-level",
        "broken-cufile-json",
    ] {
        let (_keep, root) = machine(name);
        let run = |more: &[&str]| {
            let output = gds_top()
                .args(["fix", "--root", root.to_str().unwrap(), "nvidia-gds", "--dry-run"])
                .args(more)
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let (text, told) = (run(&[]), run(&["--json"]));
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        let mut terminal = Terminal::sized(&["--root", root.to_str().unwrap()], &[], (140, 400));
        terminal.until("i checklist");
        terminal.keys("i");
        terminal.until("The proof: reads counted");
        let shown = letters(&terminal.shown());
        let body = text.lines().skip(1).filter(|line| !line.trim().is_empty());
        for line in body {
            let (indent, said) = (line.len() - line.trim_start().len(), line.trim());
            // The lines of a diff are compared on the sheet of the fix.
            let is_of_diff = indent >= 9 && !["$ ", "verify: ", "but "].iter().any(|begin| said.starts_with(begin));
            assert!(
                is_of_diff || shown.contains(&letters(said)),
                "{name}: '{said}' is not on the screen:\n{}",
                terminal.shown()
            );
        }
        let mut row = 0;
        for step in told["guide"]["steps"].as_array().unwrap() {
            row += 1;
            for plan in step["plans"].as_array().unwrap() {
                let title = plan["title"].as_str().unwrap();
                terminal.keys("g");
                terminal.keys(&"j".repeat(row));
                terminal.keys("\r");
                let heading = format!("Fix {}", title.split_whitespace().take(4).collect::<Vec<_>>().join(" "));
                terminal.until(&heading);
                let mut wanted: Vec<String> =
                    ["why", "verify", "undo"].iter().map(|key| plan[key].as_str().unwrap().to_owned()).collect();
                for change in plan["changes"].as_array().unwrap() {
                    if let Some(argv) = change["argv"].as_array() {
                        wanted.extend(argv.iter().map(|word| word.as_str().unwrap().to_owned()));
                    } else {
                        let (old, new) = (change["before"].as_str().unwrap_or(""), change["after"].as_str().unwrap());
                        wanted.extend(new.lines().filter(|l| !old.lines().any(|o| o == *l)).map(str::to_owned));
                        wanted.extend(old.lines().filter(|l| !new.lines().any(|n| n == *l)).map(str::to_owned));
                    }
                }
                for part in wanted {
                    // The title may be drawn before the rest of the sheet.
                    terminal.wait(&format!("{name}, {title}: '{part}'"), |terminal| {
                        letters(&terminal.shown()).contains(&letters(&part))
                    });
                }
                terminal.back_from(&heading);
                row += 1;
            }
        }
        terminal.quit();
    }
}

impl Terminal {
    /// Closes the sheet over the Environment screen.
    fn shut(&mut self, sheet: &str) {
        self.keys("\u{1b}");
        self.wait("the sheet to close", |t| !t.shown().contains(sheet));
    }
}

#[test]
fn undo_is_found_from_wherever_it_is_pressed_also_in_a_later_session() {
    let (keep, root) = machine("h200-vm-no-udev");
    let path = path_with_sudo(keep.path(), "#!/bin/sh\n[ \"$1\" != -v ] || exit 0\nshift 2; exec \"$@\"\n");
    let environment = [("PATH", path.as_str())];
    let arguments = ["--root", root.to_str().unwrap()];
    let record = root.join("files/run/udev/data/b254:0");
    let sheet = "Fix Write the udev record";

    // Nothing is applied, and the key reports this.
    let mut terminal = Terminal::sized(&arguments, &environment, (120, 40));
    terminal.until("f next fix");
    terminal.keys("u");
    terminal.until("no fix of gds-top is applied here");
    terminal.keys("f");
    terminal.until(sheet);
    terminal.keys("u");
    terminal.until("this fix is not applied");

    // The sheet is closed and the heading of another group is selected. The key shows the applied fix, and then
    // undoes it.
    terminal.keys("a");
    terminal.wait("the record", |_| record.exists());
    terminal.until("u undo");
    terminal.shut(sheet);
    terminal.keys("g");
    terminal.until("u undo");
    terminal.keys("u");
    terminal.until(sheet);
    terminal.until("u undoes it");
    assert!(record.exists(), "nothing is undone unseen");
    terminal.keys("u");
    terminal.until("↶ ");
    assert!(!record.exists());
    terminal.until("a apply");
    terminal.shut(sheet);

    // The selected check passes now and is at another place in the list.
    terminal.keys("f");
    terminal.until(sheet);
    terminal.keys("a");
    terminal.wait("the record", |_| record.exists());
    terminal.until("u undo");
    terminal.shut(sheet);
    terminal.keys("/udev-database\r");
    terminal.keys("G");
    terminal.until("u shows the changes and undoes them");
    terminal.quit();

    // A later session has no fix to offer, because the check passes.
    let mut terminal = Terminal::sized(&arguments, &environment, (120, 40));
    terminal.until("u undo");
    terminal.keys("u");
    terminal.until(sheet);
    terminal.until("/run/udev/data/b254:0");
    terminal.keys("u");
    terminal.until("↶ ");
    assert!(!record.exists());
    terminal.until("a apply");
    terminal.quit();
    assert!(!root.join(".gds-top").exists(), "the journal goes with its last entry");
}

/// A plan of two commands. The first ends when the file "go" exists.
fn slow_plan(folder: &Path) -> FixPlan {
    let script = "touch begun; n=0; until [ -e go ] || [ $n -gt 1800 ]; do n=$((n+1)); sleep 0.1; done; touch ended";
    let commands = [format!("cd '{}' && {{ {script}; }}", folder.display()), "exit 0".to_owned()];
    FixPlan {
        id: FixId::CufileP2pdmaKeys,
        check: CheckId::LimMemlock,
        title: "Two commands".to_owned(),
        why: "for the test".to_owned(),
        changes: commands.map(|text| Change::Run { argv: vec!["sh".to_owned(), "-c".to_owned(), text] }).to_vec(),
        needs: Needs::User,
        risk: FixRisk::Low,
        policy: FixPolicy::Ask,
        verify: "by the test".to_owned(),
        undo: "by the journal".to_owned(),
        undo_commands: Vec::new(),
        remaining: Vec::new(),
        obstacle: None,
    }
}

/// The test runs itself in a terminal. There it applies a plan to the machine, with a journal in the test's directory.
#[test]
fn no_signal_of_the_terminal_reaches_the_command_of_a_fix() {
    const IN_TERMINAL: &str = "GDS_TOP_TEST_SLOW_FIX";
    let place = |folder: &Path| Place::below(Path::new("/"), &folder.join("state"));
    if let Some(folder) = std::env::var_os(IN_TERMINAL).map(PathBuf::from) {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT]).unwrap();
        let mut received = fs::File::create(folder.join("signals")).unwrap();
        std::thread::spawn(move || {
            for number in signals.forever() {
                fixes::stop();
                write!(received, "{number} ").unwrap();
            }
        });
        let plan = slow_plan(&folder);
        let ended = fixes::apply_consented(&Root::live(), &plan, &plan.digest(), &place(&folder), &mut |_| {});
        assert_eq!(ended, Ended::Failed, "it stops before its second command");
        return;
    }
    let keep = tempfile::tempdir().unwrap();
    let folder = keep.path().canonicalize().unwrap();
    let itself = std::env::current_exe().unwrap();
    let only = ["--exact", "fixes::no_signal_of_the_terminal_reaches_the_command_of_a_fix", "--nocapture"];
    let environment = [(IN_TERMINAL, folder.to_str().unwrap())];
    let mut terminal = Terminal::of(itself.to_str().unwrap(), &only, &environment, (120, 36));
    terminal.wait("the command", |_| folder.join("begun").exists());
    let received = |terminal: &Terminal, all: &[i32]| {
        let all: String = all.iter().map(|number| format!("{number} ")).collect();
        terminal.wait(&all, |_| fs::read_to_string(folder.join("signals")).unwrap() == all);
    };
    terminal.keys("\u{3}");
    received(&terminal, &[SIGINT]);
    terminal.keys("\u{1c}");
    received(&terminal, &[SIGINT, SIGQUIT]);
    // The kernel sends HUP to the foreground group of a closed terminal. Its first process is the test.
    let group = Pid::from_raw(i32::try_from(terminal.child.process_id().unwrap()).unwrap()).unwrap();
    kill_process_group(group, Signal::HUP).unwrap();
    received(&terminal, &[SIGINT, SIGQUIT, SIGHUP]);
    assert!(!folder.join("ended").exists());
    fs::write(folder.join("go"), "").unwrap();
    assert_eq!(terminal.end(), 0, "{}", terminal.shown());
    assert!(folder.join("ended").exists(), "the command was killed");
    let entry = Journal::open(&place(&folder)).entries().remove(0);
    let states: Vec<CommandState> = entry.commands.iter().map(|command| command.state).collect();
    assert_eq!((entry.stage, states), (Stage::Applying, vec![CommandState::Done, CommandState::Waiting]));
}
