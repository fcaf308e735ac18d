//! Updates a verdict with the results of counted reads and test reads.

use crate::core::{Route, RouteCounts, Verdict, units};

/// The result of a test read.
#[derive(Clone, Debug, PartialEq)]
pub enum Trial {
    /// The read succeeded.
    Worked {
        /// The path of the file.
        file: String,
        /// The number of bytes that were read.
        bytes: u64,
        /// The counters of libcufile. `None` if it has no level-3 statistics (older than 1.16 to 1.20).
        counts: Option<RouteCounts>,
    },
    /// libcufile rejected the read.
    Refused {
        /// Its message, with the code.
        error: String,
    },
    /// libcufile reported success, but other bytes are on the GPU.
    Wrong {
        /// The file and the first wrong byte.
        error: String,
    },
    /// The read failed before a route was chosen: no file, no memory, no CUDA, or no answer.
    Untried {
        /// The reason.
        error: String,
    },
}

/// The verdict after counted reads. Counters prove the route and override the checks. Other sources do not change the
/// verdict.
#[must_use]
pub fn with_counts(verdict: &Verdict, counts: &RouteCounts) -> Verdict {
    if !counts.proven {
        return verdict.clone();
    }
    let said = |count: Option<u64>, name: &str| count.map(|n| format!("{n} {name}"));
    let parts: Vec<String> = [
        said(counts.nvfs_reads, "nvidia-fs reads"),
        said(counts.p2p_reads, "P2PDMA reads"),
        said(counts.posix_reads, "POSIX reads"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let proof =
        if parts.is_empty() { counts.source.clone() } else { format!("{}: {}", counts.source, parts.join(", ")) };
    proven(verdict, counts.route, proof)
}

fn proven(verdict: &Verdict, route: Route, proof: String) -> Verdict {
    let direct = route.is_direct();
    Verdict {
        route,
        proven: true,
        proof,
        possible: if direct { route } else { verdict.possible },
        blockers: if direct { Vec::new() } else { verdict.blockers.clone() },
        steps: if direct { Vec::new() } else { verdict.steps.clone() },
        advice: if direct { "Nothing blocks the route.".to_owned() } else { verdict.advice.clone() },
        ..verdict.clone()
    }
}

/// The verdict after a test read with compat mode forbidden and, if that failed, one with compat mode allowed.
///
/// If libcufile has counters, they decide. Otherwise, a read that needs compat mode is not direct, and a read that works
/// with compat mode forbidden proves only the routes that libcufile never counts.
#[must_use]
pub fn with_trial(verdict: &Verdict, strict: &Trial, allowed: Option<&Trial>) -> Verdict {
    match (strict, allowed) {
        (Trial::Worked { counts: Some(counts), .. }, _) if counts.proven => with_counts(verdict, counts),
        // If the counters do not include all reads, they prove no route.
        (Trial::Worked { counts: Some(counts), .. }, _)
            if ![verdict.route, verdict.possible].contains(&Route::Rdma) =>
        {
            Verdict { proof: counts.source.clone(), ..verdict.clone() }
        }
        // None of the counters includes reads over user-space RDMA.
        (Trial::Worked { file, bytes, .. }, _) => {
            let direct = [verdict.route, verdict.possible].into_iter().find(|route| route.is_direct());
            let proof = format!("a read of {} from {file} worked with compat mode forbidden", units::bytes(*bytes));
            match direct {
                // libcufile has no counters of these routes.
                Some(route @ (Route::Rdma | Route::C2c)) => proven(verdict, route, proof),
                // A library without counters, or a route that neither libcufile nor the checks show.
                _ => Verdict { proof: format!("{proof}, on a route without counters"), ..verdict.clone() },
            }
        }
        (Trial::Refused { error }, Some(Trial::Worked { file, bytes, counts })) => {
            let found = match counts {
                Some(counts) if counts.proven => with_counts(verdict, counts),
                _ => proven(
                    verdict,
                    Route::Compat,
                    format!("a read of {} from {file} worked with compat mode allowed", units::bytes(*bytes)),
                ),
            };
            let found = if verdict.route.is_direct() && !found.route.is_direct() {
                Verdict {
                    possible: verdict.route,
                    advice: format!(
                        "No check blocks {}. libcufile's message about the rejected read has the reason.",
                        verdict.route
                    ),
                    ..found
                }
            } else {
                found
            };
            Verdict { proof: format!("{}; with compat mode forbidden it fails: {error}", found.proof), ..found }
        }
        (Trial::Refused { .. }, Some(Trial::Refused { error })) => {
            let advice = if verdict.blockers.is_empty() || verdict.route != Route::None {
                format!("libcufile reports: {error}. {}", verdict.advice)
            } else {
                verdict.advice.clone()
            };
            Verdict {
                advice,
                ..proven(verdict, Route::None, format!("a test read failed, even with compat mode: {error}"))
            }
        }
        (Trial::Wrong { error }, _) | (_, Some(Trial::Wrong { error })) => Verdict {
            advice: format!(
                "Use this libcufile for no data: it reported success for a read that brought wrong bytes. \
                 Try another version of it, and examine the disk and the kernel log. {}",
                verdict.advice
            ),
            ..proven(verdict, Route::None, format!("a test read brought wrong bytes: {error}"))
        },
        (Trial::Untried { error }, _) | (_, Some(Trial::Untried { error })) => {
            Verdict { proof: format!("{}; the test read was not possible: {error}", verdict.proof), ..verdict.clone() }
        }
        (Trial::Refused { error }, None) => Verdict {
            proof: format!("{}; a read with compat mode forbidden fails: {error}", verdict.proof),
            ..verdict.clone()
        },
    }
}
