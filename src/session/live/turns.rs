//! The order of loads: one after another, or several at the same time.

use crate::core::{LaneOrder, LaneShare, ModelInfo, Part, Target};
use crate::models;

/// One load of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// Index of the model.
    pub(super) model: usize,
    pub(super) target: Target,
    pub(super) part: Option<Part>,
}

/// The turns, which run one after another. The loads of a turn run at the same time.
pub(super) fn turns(models: usize, targets: &[Target]) -> Vec<Vec<Load>> {
    let on = |number: usize| targets.get(number % targets.len().max(1)).cloned().unwrap_or(Target::Host);
    let complete = |model: usize| Load { model, target: on(model), part: None };
    if models > 1 {
        // Each model is first loaded alone, which shows how much the others slow it down.
        let alone = (0..models).map(|model| vec![complete(model)]);
        return alone.chain(std::iter::once((0..models).map(complete).collect())).collect();
    }
    let of = targets.len().max(1) as u32;
    if of == 1 {
        return vec![vec![complete(0)]];
    }
    let part = |index: u32| Load { model: 0, target: on(index as usize), part: Some(Part { index, of }) };
    vec![(0..of).map(part).collect()]
}

/// Sets the share of a load in its order, and returns it for the state.
pub(super) fn share(order: &mut LaneOrder, model: &ModelInfo, load: &Load, group: Option<u32>) -> LaneShare {
    if let Some(part) = load.part {
        order.ranges = models::part_ranges(model, part);
        order.model = models::clipped(model, &order.ranges).into();
    }
    order.gated = group.is_some();
    LaneShare { group, model: model.name.clone(), bytes: order.model.tensor_bytes(), part: load.part }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(ordinal: u32) -> Target {
        Target::Gpu { ordinal, uuid: None, name: "G".into() }
    }

    #[test]
    fn one_model_is_cut_over_targets_and_several_run_alone_first_and_then_together() {
        assert_eq!(turns(1, &[gpu(0)]), [[Load { model: 0, target: gpu(0), part: None }]]);
        let cut = turns(1, &[gpu(0), gpu(1), gpu(2)]);
        assert_eq!(cut.len(), 1);
        assert_eq!(cut[0][2], Load { model: 0, target: gpu(2), part: Some(Part { index: 2, of: 3 }) });
        let both = turns(3, &[gpu(0), gpu(1)]);
        assert_eq!(both.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1, 3]);
        assert!(both[3].iter().map(|l| &l.target).eq([gpu(0), gpu(1), gpu(0)].iter()));
        assert_eq!(turns(2, &[Target::Host]).len(), 3);
    }
}
