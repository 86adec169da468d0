//! The rows of diagnosis.md that a single condition decides: what it means, who acts, what never to do.

use super::report::Verdict;
use crate::api::conditions::ConditionType;

/// One row.
#[derive(Debug)]
pub(super) struct Row {
    /// Number in diagnosis.md.
    pub(super) id: &'static str,
    /// Condition and reason that decide it.
    pub(super) reason: (ConditionType, &'static str),
    /// What kind of answer it is.
    pub(super) verdict: Verdict,
    /// The headline, without the object.
    pub(super) summary: &'static str,
    /// How it ends.
    pub(super) ends: Ends,
    /// What to do: description, and a command where there is one. `{ns}`, `{name}`, `{identity}` and
    /// `{cluster}` stand for the object's.
    pub(super) remedy: &'static [(&'static str, &'static str)],
    /// What not to do.
    pub(super) never: Option<&'static str>,
}

/// How a row ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// The manager looks again after this many seconds.
    Recheck(i64),
    /// The manager looks again after this many seconds, but only this changes anything.
    Needs(&'static str, i64),
}

const WAITING: Verdict = Verdict::Waiting;
const NEEDS_ACTION: Verdict = Verdict::NeedsAction;

use ConditionType as C;

/// What ends an unhealthy state.
const REPAIR: &str = "the infrastructure repaired, and a run that sees it";
/// What ends a state that the next look may change.
const SAMPLE: &str = "the next run that reads its outputs";
/// Where the module says what is wrong.
const LOOK_AT_HEALTH: &[(&str, &str)] = &[(
    "the condition tells what the module reports; look at the infrastructure itself",
    "kubectl get terraformcluster {name} -n {ns} -o yaml",
)];

/// The gates in their order (cli.md §7.2, rows 7 to 9 and 11 to 12).
pub(super) const ROWS: &[Row] = &[
    Row {
        id: "D18",
        reason: (C::DependenciesReady, "WaitingForOwner"),
        verdict: WAITING,
        summary: "no Cluster owns it yet",
        ends: Ends::Needs(
            "a Cluster whose spec.infrastructureRef names this object",
            30,
        ),
        remedy: &[(
            "look at the Clusters",
            "kubectl get clusters.cluster.x-k8s.io -n {ns}",
        )],
        never: Some("add owner references by hand"),
    },
    Row {
        id: "D20",
        reason: (C::DependenciesReady, "OwnerMismatch"),
        verdict: NEEDS_ACTION,
        summary: "the Cluster in its owner references does not reference it back",
        ends: Ends::Needs(
            "a change of the Cluster's infrastructureRef or of this object's label",
            600,
        ),
        remedy: &[(
            "compare the Cluster",
            "kubectl get cluster.cluster.x-k8s.io {cluster} -n {ns} -o yaml",
        )],
        never: Some("edit the uid of the owner reference"),
    },
    Row {
        id: "D21",
        reason: (C::DependenciesReady, "OwnerNotFound"),
        verdict: NEEDS_ACTION,
        summary: "the Cluster that owns it is gone",
        ends: Ends::Needs("the Cluster, or the deletion of this object", 30),
        remedy: &[(
            "delete it if it is orphaned; its destroy runs from the recorded inputs",
            "kubectl delete terraformcluster {name} -n {ns}",
        )],
        never: Some("strip the finalizer"),
    },
    Row {
        id: "D26",
        reason: (C::DependenciesReady, "VariablesSourceNotFound"),
        verdict: NEEDS_ACTION,
        summary: "a source of its variables is missing or lacks the label captf.io/variables=true",
        ends: Ends::Needs("the ConfigMap or Secret with that label", 30),
        remedy: &[("create or label it, or mark the source optional", "")],
        never: None,
    },
    Row {
        id: "D27",
        reason: (C::DependenciesReady, "VariablesInvalid"),
        verdict: NEEDS_ACTION,
        summary: "its variables do not fit the module",
        ends: Ends::Needs("a change of the source or of the variables", 30),
        remedy: &[(
            "correct the key that the condition names",
            "kubectl edit terraformcluster {name} -n {ns}",
        )],
        never: Some("print the values"),
    },
    Row {
        id: "D28",
        reason: (C::IdentityAllowed, "IdentityNotFound"),
        verdict: NEEDS_ACTION,
        summary: "its credentials identity does not exist",
        ends: Ends::Needs("the identity, or another spec.identityRef", 30),
        remedy: &[(
            "look at the identities",
            "kubectl get terraformclusteridentities",
        )],
        never: None,
    },
    Row {
        id: "D29",
        reason: (C::IdentityAllowed, "NamespaceNotAllowed"),
        verdict: NEEDS_ACTION,
        summary: "its credentials identity does not allow this namespace",
        ends: Ends::Needs("the namespace in the identity's spec.allowedNamespaces", 30),
        remedy: &[(
            "allow the namespace",
            "kubectl edit terraformclusteridentity {identity}",
        )],
        never: Some("copy the mirrored Secret by hand"),
    },
    Row {
        id: "D30",
        reason: (C::IdentityAllowed, "SecretNotFound"),
        verdict: NEEDS_ACTION,
        summary: "the Secret with its credentials does not exist",
        ends: Ends::Needs("the Secret", 30),
        remedy: &[("create the Secret that the condition names", "")],
        never: Some(
            "label the source Secret for clusterctl move: it would be deleted from the source",
        ),
    },
    Row {
        id: "D31",
        reason: (C::IdentityAllowed, "CredentialsIncomplete"),
        verdict: NEEDS_ACTION,
        summary: "the Secret with its credentials lacks a required key",
        ends: Ends::Needs("the key, or no demand for it in spec.requiredKeys", 30),
        remedy: &[("add the keys that the condition names", "")],
        never: None,
    },
    Row {
        id: "D32",
        reason: (C::IdentityAllowed, "IdentityCheckFailed"),
        verdict: WAITING,
        summary: "its credentials identity could not be read",
        ends: Ends::Recheck(30),
        remedy: &[],
        never: None,
    },
    Row {
        id: "D33",
        reason: (C::CredentialsMirrored, "MirrorFailed"),
        verdict: NEEDS_ACTION,
        summary: "its credentials cannot be mirrored into the namespace",
        ends: Ends::Needs("the Secret out of the way, or the error gone", 30),
        remedy: &[("rename or remove the Secret that the condition names", "")],
        never: Some("label a foreign Secret as a mirror"),
    },
    Row {
        id: "D34",
        reason: (C::CredentialsMirrored, "MirrorPending"),
        verdict: WAITING,
        summary: "its credentials are not in the namespace yet",
        ends: Ends::Recheck(30),
        remedy: &[],
        never: None,
    },
    Row {
        id: "D35",
        reason: (C::RunnerRbacReady, "RBACFailed"),
        verdict: NEEDS_ACTION,
        summary: "the runner's ServiceAccount or RoleBinding cannot be made",
        ends: Ends::Needs(
            "the RoleBinding captf-runner out of the way, or the error gone",
            30,
        ),
        remedy: &[(
            "look at it",
            "kubectl get rolebinding captf-runner -n {ns} -o yaml",
        )],
        never: Some("label a foreign RoleBinding as managed"),
    },
    Row {
        id: "D36",
        reason: (C::RunnerRbacReady, "ServiceAccountNotOptedIn"),
        verdict: NEEDS_ACTION,
        summary: "its ServiceAccount has not consented to run Jobs",
        ends: Ends::Needs("the ServiceAccount with the label captf.io/runner=true", 30),
        remedy: &[(
            "label the ServiceAccount that the condition names, or drop the override",
            "",
        )],
        never: None,
    },
    Row {
        id: "D86",
        reason: (C::StateReadable, "StateCorrupt"),
        verdict: NEEDS_ACTION,
        summary: "its state cannot be decoded",
        ends: Ends::Needs("a restored backup", 60),
        remedy: &[],
        never: Some("edit the state Secret"),
    },
    Row {
        id: "D87",
        reason: (C::StateReadable, "StateEncrypted"),
        verdict: NEEDS_ACTION,
        summary: "its state is encrypted",
        ends: Ends::Needs(
            "the state decrypted and pushed with the same backend labels",
            60,
        ),
        remedy: &[("remove the module's state encryption", "")],
        never: None,
    },
    Row {
        id: "D88",
        reason: (C::StateReadable, "StateInconsistent"),
        verdict: NEEDS_ACTION,
        summary: "the parts of its state do not fit together",
        ends: Ends::Needs("a restored backup, unless a Job was just writing", 60),
        remedy: &[],
        never: Some("delete parts of the state"),
    },
    Row {
        id: "D85",
        reason: (C::StateReadable, "StateLost"),
        verdict: NEEDS_ACTION,
        summary: "its state is lost",
        ends: Ends::Needs("a restored backup, or deletionPolicy Retain", 60),
        remedy: &[],
        never: Some(
            "delete the recorded inputs to start over: that makes a second set of resources",
        ),
    },
    Row {
        id: "D89",
        reason: (C::StateReadable, "RetainedStateFound"),
        verdict: NEEDS_ACTION,
        summary: "it found the retained state of an earlier object of its name",
        ends: Ends::Needs("spec.adoptRetainedState, or the retained Secrets gone", 60),
        remedy: &[(
            "adopt that state",
            "kubectl patch terraformcluster {name} -n {ns} --type=merge -p {\"spec\":{\"adoptRetainedState\":true}}",
        )],
        never: Some("remove the retained label by hand"),
    },
    Row {
        id: "D90",
        reason: (C::StateReadable, "ApplyOutcomeUnknown"),
        verdict: NEEDS_ACTION,
        summary: "an apply ended without a result: resources may exist that no state records",
        ends: Ends::Needs(
            "a look at the cloud, then a confirmation, a restore or Retain",
            60,
        ),
        remedy: &[(
            "if nothing was made, confirm it with the annotation that the condition names",
            "",
        )],
        never: Some("confirm without having checked"),
    },
    Row {
        id: "D69",
        reason: (C::ApplyJobSucceeded, "ImageInvalid"),
        verdict: NEEDS_ACTION,
        summary: "its module image has no module in it",
        ends: Ends::Needs("another image: no retry helps", 600),
        remedy: &[(
            "name the rebuilt image",
            "kubectl edit terraformcluster {name} -n {ns}",
        )],
        never: None,
    },
    Row {
        id: "D70",
        reason: (C::ApplyJobSucceeded, "InputsTooLarge"),
        verdict: NEEDS_ACTION,
        summary: "its rendered inputs are too large",
        ends: Ends::Needs("smaller variables", 600),
        remedy: &[(
            "shrink the variables",
            "kubectl edit terraformcluster {name} -n {ns}",
        )],
        never: None,
    },
    Row {
        id: "D71",
        reason: (C::ApplyJobSucceeded, "JobPolicyInvalid"),
        verdict: NEEDS_ACTION,
        summary: "its Job policy contradicts itself: the lock timeout is not below the deadline",
        ends: Ends::Needs("a lower lock timeout or a longer deadline", 600),
        remedy: &[(
            "change spec.jobs",
            "kubectl edit terraformcluster {name} -n {ns}",
        )],
        never: None,
    },
    Row {
        id: "D115",
        reason: (C::ApplyJobSucceeded, "IdentityNotAllowed"),
        verdict: NEEDS_ACTION,
        summary: "its destroy has no credentials: the identity is revoked or gone",
        ends: Ends::Needs("the identity allowed again, or deletionPolicy Retain", 30),
        remedy: &[(
            "allow the namespace again",
            "kubectl edit terraformclusteridentity {identity}",
        )],
        never: Some("strip the finalizer"),
    },
    Row {
        id: "D74",
        reason: (C::ApplyJobSucceeded, "PlanAwaitingApproval"),
        verdict: NEEDS_ACTION,
        summary: "its plan waits for an approval",
        ends: Ends::Needs("somebody who approves the plan", 600),
        remedy: &[("review the plan", "kubectl get terraformplans -n {ns}")],
        never: Some("approve in another's name"),
    },
    Row {
        id: "D75",
        reason: (C::ApplyJobSucceeded, "PlanChanged"),
        verdict: NEEDS_ACTION,
        summary: "the approved apply planned other changes and stopped",
        ends: Ends::Needs("somebody who approves the new plan", 600),
        remedy: &[("review the new plan", "kubectl get terraformplans -n {ns}")],
        never: None,
    },
    Row {
        id: "D76",
        reason: (C::ApplyJobSucceeded, "DestructivePlanBlocked"),
        verdict: NEEDS_ACTION,
        summary: "its apply would delete or replace something and was stopped",
        ends: Ends::Needs("an approval, or other inputs", 600),
        remedy: &[("review the plan", "kubectl get terraformplans -n {ns}")],
        never: None,
    },
    Row {
        id: "D93",
        reason: (C::RestoreJobSucceeded, "RestoreBackupNotFound"),
        verdict: NEEDS_ACTION,
        summary: "the backup to restore does not exist",
        ends: Ends::Needs("the serial of a listed backup", 600),
        remedy: &[
            (
                "look for a serial among the listed backups",
                "kubectl get terraformcluster {name} -n {ns} -o jsonpath={.status.stateBackups}",
            ),
            (
                "or withdraw the request",
                "kubectl annotate terraformcluster {name} -n {ns} captf.io/restore-state-",
            ),
        ],
        never: None,
    },
    Row {
        id: "D94",
        reason: (C::RestoreJobSucceeded, "RestoreFailed"),
        verdict: NEEDS_ACTION,
        summary: "the restore failed, and is not tried again for this serial",
        ends: Ends::Needs(
            "the annotation removed and set again, or another serial",
            600,
        ),
        remedy: &[(
            "remove the request",
            "kubectl annotate terraformcluster {name} -n {ns} captf.io/restore-state-",
        )],
        never: Some("delete the failed restore Job"),
    },
    Row {
        id: "D96",
        reason: (C::OutputsValid, "OutputsMissing"),
        verdict: NEEDS_ACTION,
        summary: "its module lacks a required output",
        ends: Ends::Needs("a module image that declares it", 600),
        remedy: &[("fix the module that the condition describes", "")],
        never: Some("edit the status"),
    },
    Row {
        id: "D96",
        reason: (C::OutputsValid, "OutputsInvalid"),
        verdict: NEEDS_ACTION,
        summary: "an output of its module breaks the contract",
        ends: Ends::Needs("a module image with the right output", 600),
        remedy: &[("fix the module that the condition describes", "")],
        never: Some("edit the status"),
    },
    Row {
        id: "D100",
        reason: (C::InfrastructureHealthy, "InstanceUnhealthy"),
        verdict: NEEDS_ACTION,
        summary: "its infrastructure runs and is not healthy",
        ends: Ends::Needs(REPAIR, 600),
        remedy: LOOK_AT_HEALTH,
        never: None,
    },
    Row {
        id: "D100",
        reason: (C::InfrastructureHealthy, "InstanceDegraded"),
        verdict: NEEDS_ACTION,
        summary: "its infrastructure is degraded",
        ends: Ends::Needs(REPAIR, 600),
        remedy: LOOK_AT_HEALTH,
        never: None,
    },
    Row {
        id: "D100",
        reason: (C::InfrastructureHealthy, "InstanceStopped"),
        verdict: NEEDS_ACTION,
        summary: "its infrastructure is stopped",
        ends: Ends::Needs("somebody who starts it, and a run that sees it", 600),
        remedy: LOOK_AT_HEALTH,
        never: None,
    },
    Row {
        id: "D100",
        reason: (C::InfrastructureHealthy, "InstanceTerminated"),
        verdict: NEEDS_ACTION,
        summary: "its infrastructure is gone",
        ends: Ends::Needs("an apply that makes it anew", 600),
        remedy: LOOK_AT_HEALTH,
        never: None,
    },
    Row {
        id: "D101",
        reason: (C::InfrastructureHealthy, "InstancePending"),
        verdict: WAITING,
        summary: "its infrastructure is still coming up",
        ends: Ends::Needs(SAMPLE, 600),
        remedy: LOOK_AT_HEALTH,
        never: None,
    },
    Row {
        id: "D101",
        reason: (C::InfrastructureHealthy, "Provisioning"),
        verdict: WAITING,
        summary: "its infrastructure is being provisioned",
        ends: Ends::Needs(SAMPLE, 600),
        remedy: LOOK_AT_HEALTH,
        never: None,
    },
    Row {
        id: "D101",
        reason: (C::InfrastructureHealthy, "ProviderIDMissing"),
        verdict: WAITING,
        summary: "its module reported no provider id",
        ends: Ends::Needs(SAMPLE, 600),
        remedy: LOOK_AT_HEALTH,
        never: None,
    },
    Row {
        id: "D101",
        reason: (C::InfrastructureHealthy, "HealthUnknown"),
        verdict: WAITING,
        summary: "its module does not tell whether its infrastructure is healthy",
        ends: Ends::Needs(SAMPLE, 600),
        remedy: &[(
            "let the module report the output health",
            "kubectl get terraformcluster {name} -n {ns} -o yaml",
        )],
        never: None,
    },
    Row {
        id: "D107",
        reason: (C::EndpointAvailable, "WaitingForEndpoint"),
        verdict: NEEDS_ACTION,
        summary: "nobody names the endpoint of its control plane",
        ends: Ends::Needs(
            "the module's output control_plane_endpoint, or the Cluster's",
            600,
        ),
        remedy: &[(
            "add the output, or set Cluster.spec.controlPlaneEndpoint",
            "",
        )],
        never: None,
    },
];

/// The row of a condition and reason, if a condition alone decides it.
pub(super) fn row(condition: ConditionType, reason: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.reason == (condition, reason))
}

#[cfg(test)]
mod tests {
    use super::ROWS;
    use crate::api::ApiKind;
    use crate::api::conditions::TABLE;

    #[test]
    fn every_row_is_a_reason_that_the_operator_may_give_a_cluster() {
        for row in ROWS {
            let (condition, reason) = row.reason;
            let known = TABLE.iter().any(|entry| {
                entry.condition == condition
                    && entry.kinds.contains(&ApiKind::TerraformCluster)
                    && (entry.when_false.contains(&reason) || entry.when_unknown.contains(&reason))
            });
            assert!(known, "{} {}/{reason}", row.id, condition.as_str());
        }
    }
}
