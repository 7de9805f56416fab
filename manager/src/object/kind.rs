//! The resource of a type, and the form in which caches store its objects.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use super::{MetaObject, Object, Resource, Typed};

/// A type of objects, by which caches, clients and controllers find the resource.
///
/// - Types of `k8s-openapi` and of `#[derive(CustomResource)]` are cached as they are: [`Typed`].
/// - A [`projection!`](crate::projection) is cached with its own fields only.
/// - [`MetadataOf`] one of them is cached with its metadata only.
///
/// All of them share one list and watch.
pub trait Kind: 'static {
    /// The form in which caches store the objects.
    type Cached: Object;

    /// Returns the resource.
    fn resource() -> Resource;
}

/// The metadata of a kind: `MetadataOf<Pod>` is listed and watched as `PartialObjectMetadata`.
#[derive(Debug)]
pub struct MetadataOf<K>(PhantomData<fn() -> K>);

/// A type of `k8s-openapi` or of `#[derive(CustomResource)]`.
pub trait ApiObject:
    kube::Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> ApiObject for K where
    K: kube::Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static
{
}

impl<K: ApiObject> Kind for K {
    type Cached = Typed<K>;

    fn resource() -> Resource {
        Resource::of::<K>()
    }
}

impl<K: Kind> Kind for MetadataOf<K> {
    type Cached = MetaObject;

    fn resource() -> Resource {
        K::resource()
    }
}

/// Implements [`Object`] and [`Kind`] for a struct that holds chosen fields of a kind.
///
/// The struct implements `Deserialize`, `Debug` and `PartialEq`, and has a field `metadata` of type
/// [`Meta`](crate::object::Meta). A cache of it keeps these fields only, and reports a change only if one of them changed.
/// Annotations are dropped, except those that are listed.
///
/// ```
/// use steersman_manager::object::Meta;
/// use k8s_openapi::api::core::v1::Pod;
///
/// #[derive(Debug, PartialEq, serde::Deserialize)]
/// struct PodPhase {
///     metadata: Meta,
///     #[serde(default)]
///     status: Phase,
/// }
///
/// #[derive(Debug, Default, PartialEq, serde::Deserialize)]
/// #[serde(default)]
/// struct Phase {
///     phase: String,
/// }
///
/// steersman_manager::projection!(PodPhase of Pod, annotations: ["example.com/owner"]);
/// ```
#[macro_export]
macro_rules! projection {
    ($projection:ident of $kind:ty $(, annotations: [$($annotation:expr),* $(,)?])? $(,)?) => {
        impl $crate::object::Object for $projection {
            const ANNOTATIONS: &'static [&'static str] = &[$($($annotation),*)?];

            fn meta(&self) -> &$crate::object::Meta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut $crate::object::Meta {
                &mut self.metadata
            }
        }

        impl $crate::object::Kind for $projection {
            type Cached = Self;

            fn resource() -> $crate::object::Resource {
                <$kind as $crate::object::Kind>::resource()
            }
        }
    };
}
