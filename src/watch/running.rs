//! Infers the route of a running process from its settings, its cufile.log and the modules of the machine.

use super::process_log::ProcessLog;
use super::routes::MachineRoutes;
use super::settings::Settings;
use crate::core::{Route, RouteProof};
use crate::trust::Allowance;

/// A running process that uses libcufile.
#[derive(Debug)]
pub struct Running {
    process: u32,
    /// The reason why it may use P2PDMA.
    p2pdma: Option<RouteProof>,
    log: Option<ProcessLog>,
}

impl Running {
    /// Reads the settings of a process. `None` if it has ended or may not be examined.
    #[must_use]
    pub fn new(process: u32, allowed: &mut Allowance) -> Option<Self> {
        let may_use_p2pdma = Settings::of(process, allowed)?.may_use_p2pdma;
        let p2pdma = may_use_p2pdma.then_some(RouteProof::SettingsMayEnableP2pdma);
        Some(Self { process, p2pdma, log: None })
    }

    /// The route and its evidence, from the log that it has written so far. It is inferred and never a proof.
    pub fn route(&mut self, allowed: &mut Allowance) -> (Route, RouteProof) {
        if self.log.is_none() {
            self.log = ProcessLog::find(self.process, allowed);
        }
        let log_reports_compat = self.log.as_mut().is_some_and(|log| {
            log.read(allowed);
            log.reports_compat()
        });
        MachineRoutes { log_reports_compat, ..MachineRoutes::look(None, self.p2pdma) }.route(false)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn the_log_and_the_settings_of_a_running_process_show_compat() {
        let route = |settings: &str, line: &str| {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("cufile.json"), settings).unwrap();
            let log = std::fs::File::create(dir.path().join("cufile.log")).unwrap();
            let mut process = Command::new("sleep")
                .arg("60")
                .env("CUFILE_ENV_PATH_JSON", dir.path().join("cufile.json"))
                .stdout(Stdio::from(log.try_clone().unwrap()))
                .spawn()
                .unwrap();
            writeln!(&log, " 27-11-2026 14:39:59:877 [pid={} tid=9] NOTICE  {line}", process.id()).unwrap();
            // While a program starts, it has no variables for a moment.
            let start = Instant::now();
            let mut running = Running::new(process.id(), &mut Allowance::unlimited());
            while running.is_none() && start.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(5));
                running = Running::new(process.id(), &mut Allowance::unlimited());
            }
            let found = running.unwrap().route(&mut Allowance::unlimited());
            process.kill().unwrap();
            process.wait().unwrap();
            assert!(Running::new(process.id(), &mut Allowance::unlimited()).is_none(), "it has ended");
            found
        };
        let compat = "cufio-drv:1257 running in compatible mode";
        if cfg!(target_arch = "x86_64") {
            assert_eq!(route("{}", compat), (Route::Compat, RouteProof::ProcessLog));
        }
        let enabled = route("{\"properties\": {\"use_pci_p2pdma\": true}}", compat);
        assert_eq!(enabled, (Route::None, RouteProof::SettingsMayEnableP2pdma));
    }
}
