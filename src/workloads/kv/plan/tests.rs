//! Tests of the plans of KV workloads.

#![allow(clippy::unwrap_used)]

use super::*;

fn request(kind: KvSystem) -> Request {
    Request { cufile_json: Some("none".to_owned()), ..Request::usual(kind) }
}

fn names(plan: &Plan) -> Vec<String> {
    plan.lanes.iter().map(ToString::to_string).collect()
}

#[test]
fn each_variant_writes_and_then_reads() {
    let plan = plan(&request(KvSystem::Lmcache), Path::new("/kv")).unwrap();
    assert_eq!(
        names(&plan),
        ["disk", "ram", "gds", "gds-registered"]
            .iter()
            .flat_map(|v| ["write", "read"].map(|d| format!("lmcache/{v}/{d}")))
            .collect::<Vec<_>>()
    );
    assert_eq!(plan.model.name, "lmcache llama-3.1-70b 2k");
    // 2048 tokens of 320 KiB each, in 8 chunks.
    assert_eq!((plan.model.tensor_bytes(), plan.model.shards.len()), (640 << 20, 8));
}

#[test]
fn a_comparison_runs_every_variant_with_every_value() {
    let mut asked = request(KvSystem::Ucm);
    asked.variants = vec!["gds".to_owned()];
    asked.compare = Some("handle_cache=0,65536".to_owned());
    asked.directions = (false, true);
    assert_eq!(
        names(&plan(&asked, Path::new("/kv")).unwrap()),
        ["ucm/gds:handle_cache=0/read", "ucm/gds:handle_cache=65536/read"]
    );
    asked.compare = Some("handle_cache=0,x".to_owned());
    assert!(plan(&asked, Path::new("/kv")).unwrap_err().0.contains("not a number"));
    asked.compare = Some("handle_cache=7,07".to_owned());
    assert!(plan(&asked, Path::new("/kv")).unwrap_err().0.contains("names 7 twice"));
}

#[test]
fn a_comparison_without_effect_is_rejected_or_reported() {
    let of = |kind: KvSystem, variants: &[&str], compare: &str, set: &[&str]| {
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        let asked = Request {
            variants: owned(variants),
            compare: Some(compare.to_owned()),
            settings: owned(set),
            directions: (false, true),
            ..request(kind)
        };
        plan(&asked, Path::new("/kv"))
    };
    for (kind, variants, compare, set, part) in [
        (KvSystem::Ucm, &["ram"][..], "handle_cache=0,65536", &[][..], "host memory has no files"),
        (KvSystem::Ucm, &["disk"], "register=0,1", &[], "does not use cuFile"),
        (KvSystem::Ucm, &["gds"], "async_depth=1,16", &[], "async=1"),
        (KvSystem::Lmcache, &["gds"], "prefetch_factor=0,2", &["enable_layerwise=0"], "enable_layerwise=1"),
        (KvSystem::Lmcache, &["gds"], "fsync=0,1", &[], "only affects writes"),
        (KvSystem::Lmcache, &["gds"], "prefetch_factor=500,900", &["enable_layerwise=1"], "have the same effect as 80"),
        (KvSystem::Llmd, &["gds", "staging"], "read_priority=0,1", &[], "write_percent"),
    ] {
        let said = of(kind, variants, compare, set).unwrap_err().0;
        assert!(said.contains(part) && said.contains(compare), "{compare}: {said}");
    }
    let plan = of(KvSystem::Ucm, &["ram", "gds"], "handle_cache=0,65536", &[]).unwrap();
    assert_eq!(names(&plan), ["ucm/ram/read", "ucm/gds:handle_cache=0/read", "ucm/gds:handle_cache=65536/read"]);
    assert!(plan.warnings[0].contains("ram (host memory has no files)"), "{:?}", plan.warnings);
    assert_eq!(of(KvSystem::Ucm, &["gds"], "async_depth=1,16", &["async=1"]).unwrap().warnings, [""; 0]);
}

#[test]
fn a_setting_without_effect_is_reported() {
    let of = |variants: &[&str], set: &str| {
        let mut asked = request(KvSystem::Llmd);
        asked.variants = variants.iter().map(|one| (*one).to_owned()).collect();
        asked.settings = vec![set.to_owned()];
        plan(&asked, Path::new("/kv")).unwrap().warnings
    };
    for (variants, set, part) in [
        (&["gds"][..], "register=2", "gds:register=N"),
        (&["staging", "ram"], "register=1", "does not use cuFile"),
        (&["gds:handle_cache=3"], "handle_cache=4", "set it themselves"),
    ] {
        let said = of(variants, set);
        assert!(said.len() == 1 && said[0].contains(part) && said[0].contains(set), "{said:?}");
    }
    assert_eq!(of(&[], "register=2"), [""; 0]);
    assert_eq!(of(&["gds"], "fsync=1"), [""; 0]);
}

#[test]
fn a_hit_rate_of_zero_writes_nothing_and_an_impossible_one_is_reported() {
    let mut asked = request(KvSystem::Lmcache);
    asked.variants = vec!["disk".to_owned()];
    asked.hit_rate = 0.0;
    let all_misses = plan(&asked, Path::new("/kv")).unwrap();
    assert_eq!((names(&all_misses), all_misses.disk_bytes), (vec!["lmcache/disk/read".to_owned()], 0));
    assert!(all_misses.warnings[0].contains("nothing is written"));
    asked.directions = (true, false);
    assert!(plan(&asked, Path::new("/kv")).unwrap_err().0.contains("nothing to write"));
    asked.directions = (true, true);
    asked.tokens = Some(768);
    asked.hit_rate = 0.5;
    let odd = plan(&asked, Path::new("/kv")).unwrap();
    assert_eq!(odd.model.shards.len(), 2);
    assert_eq!(odd.warnings, ["a hit rate of 0.5 with 3 files per sequence gives 2 stored files, which is 66.7 %"]);
    asked.tokens = Some(1024);
    assert_eq!(plan(&asked, Path::new("/kv")).unwrap().warnings, [""; 0]);
}

#[test]
fn what_cannot_be_is_a_sentence() {
    let mut asked = request(KvSystem::Ucm);
    asked.provoke = Some(FallbackReason::InitFailed);
    assert!(plan(&asked, Path::new("/kv")).unwrap_err().0.contains("does not fall back"));
    let mut asked = request(KvSystem::Llmd);
    asked.hit_rate = -0.1;
    assert!(plan(&asked, Path::new("/kv")).unwrap_err().0.contains("--hit-rate"));
    asked.hit_rate = 1.0;
    asked.settings = vec!["gpu_block=15".to_owned()];
    assert!(plan(&asked, Path::new("/kv")).unwrap_err().0.contains("not a multiple of"));
    asked.settings.clear();
    asked.cufile_json = Some("/none/such.json".to_owned());
    assert!(plan(&asked, Path::new("/kv")).unwrap_err().0.contains("--cufile-json"));
}
