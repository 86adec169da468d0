//! The guard of an apply that was decided (approvals.md §3, jobs.md §6.1).

use crate::jobs::anatomy::{Guard, is_guarded};
use crate::names::{InputsHash, Kind};

use super::{Approval, Run};

/// The guard arguments of a Job: what its render is called in an approval (the approval hash, else the
/// inputs hash), and what the approval of this start lets pass. Nothing where no guard applies.
#[must_use]
pub fn guard(
    kind: Kind,
    run: &Run,
    inputs_hash: &InputsHash,
    approval_hash: &InputsHash,
) -> Option<Guard> {
    is_guarded(kind, run.op, approval_hash).then(|| Guard {
        inputs_hash: if approval_hash.is_empty() {
            inputs_hash.clone()
        } else {
            approval_hash.clone()
        },
        allow_deletes_hash: match &run.approval {
            Approval::AllowDeletes { inputs_hash, .. } => Some(inputs_hash.clone()),
            Approval::None | Approval::ExpectPlan { .. } => None,
        },
        expect_plan: match &run.approval {
            Approval::ExpectPlan { plan_hash, .. } => Some(plan_hash.clone()),
            Approval::None | Approval::AllowDeletes { .. } => None,
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use crate::names::Op;

    #[test]
    fn a_cluster_apply_is_guarded_under_its_inputs() {
        let guard = guard(
            Kind::TerraformCluster,
            &Run::plain(Op::Apply),
            &InputsHash::new("h2:a"),
            &InputsHash::default(),
        );
        assert_eq!(guard.unwrap().inputs_hash.as_str(), "h2:a");
    }

    #[test]
    fn an_approved_plan_is_expected() {
        let run = Run {
            op: Op::Apply,
            approval: Approval::ExpectPlan {
                plan_hash: "p2:ab".into(),
                plan: None,
            },
        };
        let guard = guard(
            Kind::TerraformCluster,
            &run,
            &InputsHash::new("h2:a"),
            &InputsHash::default(),
        );
        assert_eq!(guard.unwrap().expect_plan.as_deref(), Some("p2:ab"));
    }

    #[test]
    fn a_guarded_pool_apply_goes_by_its_approval_hash() {
        let run = Run {
            op: Op::Apply,
            approval: Approval::AllowDeletes {
                inputs_hash: InputsHash::new("h2:approval"),
                plan: "prod-0123456789".into(),
            },
        };
        let guard = guard(
            Kind::TerraformMachinePool,
            &run,
            &InputsHash::new("h2:a"),
            &InputsHash::new("h2:approval"),
        )
        .unwrap();
        assert_eq!(guard.inputs_hash.as_str(), "h2:approval");
        assert_eq!(
            guard.allow_deletes_hash,
            Some(InputsHash::new("h2:approval"))
        );
    }

    #[test]
    fn a_machine_apply_has_no_guard() {
        let hash = InputsHash::new("h2:a");
        assert_eq!(
            guard(Kind::TerraformMachine, &Run::plain(Op::Apply), &hash, &hash),
            None
        );
    }
}
