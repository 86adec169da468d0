//! The `Ready` summary of the workload kinds (lifecycle.md §14.4, conditions-events.md §4).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{ConditionType, Polarity, Ready, State, Status, Verdict, get};
use crate::names::Kind;

const BEFORE_PROVISIONED: &[ConditionType] = &[
    ConditionType::DependenciesReady,
    ConditionType::IdentityAllowed,
    ConditionType::CredentialsMirrored,
    ConditionType::RunnerRbacReady,
    ConditionType::ApplyJobSucceeded,
    ConditionType::StateReadable,
    ConditionType::OutputsValid,
    ConditionType::InfrastructureHealthy,
    ConditionType::Deleting,
];
/// Without `ApplyJobSucceeded`: a failed re-apply must not suspend the MachineHealthChecks of a
/// whole cluster.
const PROVISIONED: &[ConditionType] = &[
    ConditionType::InfrastructureHealthy,
    ConditionType::Deleting,
];
const PROVISIONED_POOL: &[ConditionType] = &[
    ConditionType::InfrastructureHealthy,
    ConditionType::ApplyJobSucceeded,
    ConditionType::Deleting,
];

/// How one input counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    Issue,
    Unknown,
    Info,
}

struct Input {
    condition: ConditionType,
    weight: Weight,
    message: String,
}

/// Summarises the other conditions as `Ready`: an issue makes it False, else an unknown makes it
/// Unknown, else it is True; a missing input is unknown, except `Deleting` (lifecycle.md §14.4).
///
/// `provisioned` is the latched `status.initialization.provisioned`.
#[must_use]
pub fn ready_summary(kind: Kind, provisioned: bool, conditions: &[Condition]) -> Verdict {
    let inputs: Vec<Input> = inputs(kind, provisioned)
        .iter()
        .filter_map(|condition| weigh(*condition, conditions))
        .collect();
    let any = |weight| inputs.iter().any(|input| input.weight == weight);
    let (state, in_message): (Ready, fn(&Input) -> bool) = if any(Weight::Issue) {
        (Ready::NotReady, |input| input.weight != Weight::Info)
    } else if any(Weight::Unknown) {
        (Ready::ReadyUnknown, |input| input.weight != Weight::Info)
    } else {
        (Ready::Ready, |input| !input.message.is_empty())
    };
    let bullets: Vec<String> = inputs
        .iter()
        .filter(|input| in_message(input))
        .map(bullet)
        .collect();
    state.with(bullets.join("\n"))
}

fn inputs(kind: Kind, provisioned: bool) -> &'static [ConditionType] {
    match (provisioned, kind) {
        (false, _) => BEFORE_PROVISIONED,
        (true, Kind::TerraformCluster | Kind::TerraformMachine) => PROVISIONED,
        (true, Kind::TerraformMachinePool) => PROVISIONED_POOL,
    }
}

fn weigh(condition: ConditionType, conditions: &[Condition]) -> Option<Input> {
    let Some(found) = get(conditions, condition) else {
        return (condition != ConditionType::Deleting).then(|| Input {
            condition,
            weight: Weight::Unknown,
            message: format!("Condition {condition} not yet reported"),
        });
    };
    let bad = if condition.polarity() == Polarity::Negative {
        Status::True
    } else {
        Status::False
    };
    let weight = match Status::of(found) {
        Status::Unknown => Weight::Unknown,
        status if status == bad => Weight::Issue,
        _ => Weight::Info,
    };
    Some(Input {
        condition,
        weight,
        message: found.message.clone(),
    })
}

/// One line of the message, in the form of Cluster API's summaries (conditions-events.md §4.4).
fn bullet(input: &Input) -> String {
    let condition = input.condition;
    match input.message.as_str() {
        "" => format!("* {condition}: No additional info provided"),
        message if message.contains('\n') => {
            let indented: Vec<String> = message.lines().map(|line| format!("  {line}")).collect();
            format!("* {condition}:\n{}", indented.join("\n"))
        }
        message => format!("* {condition}: {message}"),
    }
}
