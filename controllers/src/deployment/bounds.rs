//! How many pods there may be, and how many must serve, while one template gives way to another.
//!
//! A share that may be too many is rounded up, one that may be missing is rounded down. With neither nothing could move, so
//! then one may be missing.

use crate::support::deployment::{Amount, Deployment, Rolling};

/// The most pods that the API can ask for.
const MOST: i64 = i32::MAX as i64;

/// How far a Deployment may go, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How many pods are wanted.
    pub replicas: i64,
    /// How many more there may be.
    pub surge: i64,
    /// How many of them may be missing.
    pub unavailable: i64,
    /// Whether old pods give way one by one; if not, all of them go before the first new one comes.
    pub rolling: bool,
}

/// Why there are no bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundsError {
    /// Fewer than none.
    #[error("spec.replicas is {0}; it must be 0 or more")]
    Replicas(i64),
    /// A strategy that nobody knows.
    #[error("spec.strategy.type is {0:?}; it must be RollingUpdate or Recreate")]
    Strategy(String),
    /// An amount that is none.
    #[error(
        "spec.strategy.rollingUpdate.{field} is {amount}; it must be a number or a percentage, and not negative"
    )]
    Amount {
        /// Which one.
        field: &'static str,
        /// What it says.
        amount: String,
    },
}

impl Bounds {
    /// The bounds of a Deployment.
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

    fn rolling(replicas: i64, rolling: &Rolling) -> Result<Self, BoundsError> {
        let surge = resolve("maxSurge", rolling.max_surge.as_ref(), replicas, 99)?;
        let unavailable = resolve("maxUnavailable", rolling.max_unavailable.as_ref(), replicas, 0)?;
        let unavailable = if surge == 0 && unavailable == 0 {
            1
        } else {
            unavailable
        };
        Ok(Self {
            replicas,
            surge: surge.min(MOST - replicas.min(MOST)),
            unavailable: unavailable.min(replicas),
            rolling: true,
        })
    }

    /// How many pods there may be.
    #[must_use]
    pub fn limit(&self) -> i64 {
        self.replicas + self.surge
    }

    /// How many pods must serve.
    #[must_use]
    pub fn min_available(&self) -> i64 {
        self.replicas - self.unavailable
    }
}

/// How many an amount is of so many; `round` of a hundredth is added before a share is cut.
fn resolve(field: &'static str, amount: Option<&Amount>, of: i64, round: i64) -> Result<i64, BoundsError> {
    let refuse = |amount: String| Err(BoundsError::Amount { field, amount });
    match amount {
        None => Ok(0),
        Some(Amount::Count(count @ 0..)) => Ok(*count),
        Some(Amount::Count(count)) => refuse(count.to_string()),
        Some(Amount::Share(share)) => {
            let digits = share
                .strip_suffix('%')
                .filter(|it| it.bytes().all(|b| b.is_ascii_digit()));
            match digits.and_then(|it| it.parse::<i64>().ok()) {
                Some(percent) => Ok(percent.saturating_mul(of).saturating_add(round) / 100),
                None => refuse(format!("{share:?}")),
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
    fn shares_are_rounded_for_more_pods_rather_than_fewer() {
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
    fn what_is_no_amount_is_said_by_its_field() {
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
            (recreate.limit(), recreate.min_available(), recreate.rolling),
            (2, 2, false)
        );
    }
}
