//! The scripts of shells complete commands, engines, shapes and files.

use super::run;
use std::path::Path;

#[test]
fn completions_offer_engines_cache_states_and_shapes() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = String::from_utf8(run(&["completions", shell], folder.path()).stdout).unwrap();
        for hidden in ["__lane", "__on-terminal", "__probe-cuda"] {
            assert!(!text.contains(hidden), "{shell} offers {hidden}");
        }
    }
    let script = folder.path().join("gds-top.bash");
    std::fs::write(&script, run(&["completions", "bash"], folder.path()).stdout).unwrap();
    let Some(bash) = bash() else {
        eprintln!("skipped: there is no bash");
        return;
    };
    // The words, of which the last one is completed, and some of the answers.
    for (words, expected) in [
        (&["gds-top", ""][..], &["bench", "check", "make-model", "settings"][..]),
        (&["gds-top", "bench", "model", "--engine", ""], &["gds-slab", "odirect"]),
        (&["gds-top", "bench", "model", "--cache", ""], &["cold", "hot", "as-is"]),
        (&["gds-top", "make-model", ""], &["qwen3-0.6b", "odd-sizes"]),
        (&["gds-top", "bench", ""], &["qwen3-0.6b", "odd-sizes", "src"]),
        (&["gds-top", "inspect", "q"], &["qwen3-0.6b"]),
        (&["gds-top", "check", "/data", "--require", ""], &["compat", "direct", "proven"]),
        (&["gds-top", "config", "lint", "--st"], &["--strict"]),
        (&["gds-top", "help", ""], &["bench", "check"]),
    ] {
        let offered = completed(&bash, &script, words);
        for word in expected {
            assert!(offered.iter().any(|other| other == word), "{words:?}: {word} is not in {offered:?}");
        }
        assert!(!offered.iter().any(|word| word.contains("__")), "{words:?}: {offered:?}");
    }
}

#[test]
fn a_model_is_completed_in_fish_and_zsh_as_a_shape_or_a_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("weights.safetensors"), b"").unwrap();
    let script = |shell: &str| run(&["completions", shell], folder.path()).stdout;
    std::fs::write(folder.path().join("gds-top.fish"), script("fish")).unwrap();
    std::fs::write(folder.path().join("_gds-top"), script("zsh")).unwrap();
    let answer = |shell: &str, arguments: &[&str]| {
        let output = std::process::Command::new(shell).args(arguments).current_dir(folder.path()).output().ok()?;
        assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap())
    };
    match answer("fish", &["--no-config", "-c", "source gds-top.fish; complete -C 'gds-top bench '"]) {
        Some(offered) => {
            let help = ["--no-config", "-c", "source gds-top.fish; complete -C 'gds-top help '"];
            let help = answer("fish", &help).unwrap();
            assert!(help.lines().any(|line| line == "bench") && !help.contains("weights"), "{help}");
            for word in ["qwen3-0.6b", "odd-sizes", "weights.safetensors"] {
                assert!(offered.lines().any(|line| line.split('\t').next() == Some(word)), "{word}: {offered}");
            }
        }
        None => eprintln!("skipped: there is no fish"),
    }
    // zsh completes only in a terminal, so its script is parsed and its entry is read.
    let Some(_) = answer("zsh", &["-n", "_gds-top"]) else {
        eprintln!("skipped: there is no zsh");
        return;
    };
    let text = std::fs::read_to_string(folder.path().join("_gds-top")).unwrap();
    let both = text.lines().filter(|line| line.contains("_alternative") && line.contains("_files")).count();
    assert!(both >= 4, "{both} models");
}

fn bash() -> Option<std::path::PathBuf> {
    ["/bin/bash", "/usr/bin/bash"].iter().map(std::path::PathBuf::from).find(|path| path.exists())
}

/// The offers of the completions of bash for the last one of these words.
fn completed(bash: &Path, script: &Path, words: &[&str]) -> Vec<String> {
    const ASK: &str = r#"source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _gds_top "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"; printf '%s\n' "${COMPREPLY[@]}""#;
    let output = std::process::Command::new(bash).args(["-c", ASK, "bash"]).arg(script).args(words).output().unwrap();
    assert!(output.stderr.is_empty(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}
