//! The bounds of a rollout: the maximum number of pods, and the minimum number of available pods.
//!
//! A percentage is rounded up for maxSurge and down for maxUnavailable. If both are 0, maxUnavailable is 1, or the
//! rollout could not proceed.

use crate::support::deployment::{Deployment, IntOrPercent, RollingUpdate};

/// The largest value of `spec.replicas`.
const REPLICAS_LIMIT: i64 = i32::MAX as i64;

/// The bounds of a rollout in numbers of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The desired number of pods.
    pub replicas: i64,
    /// The number of pods above `replicas` that may exist.
    pub surge: i64,
    /// The number of pods below `replicas` that may be missing.
    pub unavailable: i64,
    /// The strategy is `RollingUpdate`, not `Recreate`.
    pub rolling: bool,
}

/// An invalid number of replicas or strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum BoundsError {
    #[error("spec.replicas is {0}; it must be 0 or more")]
    Replicas(i64),
    #[error("spec.strategy.type is {0:?}; it must be RollingUpdate or Recreate")]
    Strategy(String),
    #[error(
        "spec.strategy.rollingUpdate.{field} is {amount}; it must be a number or a percentage, and not negative"
    )]
    Amount { field: &'static str, amount: String },
}

impl Bounds {
    /// Computes the bounds of a Deployment.
    pub fn of(deployment: &Deployment) -> Result<Self, BoundsError> {
        let replicas = deployment.replicas();
        if replicas < 0 {
            return Err(BoundsError::Replicas(replicas));
        }
        let strategy = deployment.strategy();
        match &*strategy.type_ {
            "Recreate" => Ok(Self {
                replicas,
                surge: 0,
                unavailable: 0,
                rolling: false,
            }),
            "RollingUpdate" | "" => Self::rolling(replicas, &strategy.rolling_update),
            other => Err(BoundsError::Strategy(other.to_owned())),
        }
    }

    fn rolling(replicas: i64, rolling: &RollingUpdate) -> Result<Self, BoundsError> {
        let surge = resolve("maxSurge", rolling.max_surge.as_ref(), replicas, 99)?;
        let unavailable = resolve("maxUnavailable", rolling.max_unavailable.as_ref(), replicas, 0)?;
        let unavailable = if surge == 0 && unavailable == 0 {
            1
        } else {
            unavailable
        };
        Ok(Self {
            replicas,
            surge: surge.min(REPLICAS_LIMIT - replicas.min(REPLICAS_LIMIT)),
            unavailable: unavailable.min(replicas),
            rolling: true,
        })
    }

    /// Returns the maximum number of pods.
    #[must_use]
    pub fn max_replicas(&self) -> i64 {
        self.replicas + self.surge
    }

    /// Returns the minimum number of available pods.
    #[must_use]
    pub fn min_available(&self) -> i64 {
        self.replicas - self.unavailable
    }
}

/// Resolves an amount relative to `of`. `round` is added to a percentage before the division: 99 rounds up, 0 down.
fn resolve(
    field: &'static str,
    amount: Option<&IntOrPercent>,
    of: i64,
    round: i64,
) -> Result<i64, BoundsError> {
    let invalid = |amount: String| Err(BoundsError::Amount { field, amount });
    match amount {
        None => Ok(0),
        Some(IntOrPercent::Int(count @ 0..)) => Ok(*count),
        Some(IntOrPercent::Int(count)) => invalid(count.to_string()),
        Some(IntOrPercent::Percent(percent)) => {
            let digits = percent
                .strip_suffix('%')
                .filter(|it| it.bytes().all(|b| b.is_ascii_digit()));
            match digits.and_then(|it| it.parse::<i64>().ok()) {
                Some(percent) => Ok(percent.saturating_mul(of).saturating_add(round) / 100),
                None => invalid(format!("{percent:?}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::{Value, json};

    fn of(replicas: i64, surge: &Value, unavailable: &Value) -> Result<Bounds, BoundsError> {
        let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
        let json = json!({"spec": {"replicas": replicas, "strategy": strategy}});
        Bounds::of(&serde_json::from_value(json).expect("a Deployment"))
    }

    #[test]
    fn surge_rounds_up_and_unavailable_rounds_down() {
        for (replicas, surge, unavailable, expected) in [
            (10, json!("25%"), json!("25%"), (3, 2)),
            (1, json!("25%"), json!("25%"), (1, 0)),
            (4, json!("25%"), json!("25%"), (1, 1)),
            (3, json!(1), json!(0), (1, 0)),
            (3, json!(0), json!(2), (0, 2)),
            (5, json!("1%"), json!("99%"), (1, 4)),
            (5, json!("0%"), json!("10%"), (0, 1)),
            (5, json!(0), json!(0), (0, 1)),
            (5, json!(null), json!(null), (0, 1)),
            (0, json!("25%"), json!("25%"), (0, 0)),
            (0, json!(5), json!(5), (5, 0)),
            (3, json!("500%"), json!("200%"), (15, 3)),
            (3, json!(9), json!(9), (9, 3)),
            (i64::from(i32::MAX), json!(5), json!(1), (0, 1)),
        ] {
            let bounds = of(replicas, &surge, &unavailable).expect("bounds");
            assert_eq!(
                (bounds.surge, bounds.unavailable),
                expected,
                "{replicas} {surge} {unavailable}"
            );
        }
    }

    #[test]
    fn invalid_amount_names_the_field() {
        for odd in [
            json!(-1),
            json!("-1%"),
            json!("5"),
            json!("%"),
            json!("x%"),
            json!("1.5%"),
            json!(""),
        ] {
            let error = of(3, &odd, &json!(1)).expect_err("no amount").to_string();
            assert!(error.contains("maxSurge"), "{odd}: {error}");
        }
        assert_eq!(of(-1, &json!(1), &json!(1)), Err(BoundsError::Replicas(-1)));
        let strategy = |type_: &str| {
            let json = json!({"spec": {"replicas": 2, "strategy": {"type": type_}}});
            Bounds::of(&serde_json::from_value(json).expect("a Deployment"))
        };
        assert!(strategy("Sideways").is_err());
        let recreate = strategy("Recreate").expect("bounds");
        assert_eq!(
            (
                recreate.max_replicas(),
                recreate.min_available(),
                recreate.rolling
            ),
            (2, 2, false)
        );
    }
}
