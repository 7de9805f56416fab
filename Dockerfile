# Requires BuildKit. Alpine's target is musl: the binary is static.
ARG RUST_IMAGE=rust:1.91-alpine@sha256:45c1c35cd364b8055e9e86f8ecd3e8c874b2dcb658d8a4f94b5d111aa0d651a2

FROM ${RUST_IMAGE} AS build
# make builds jemalloc. The C compiler is that of the image.
RUN apk add --no-cache 'make~4.4.1' 'musl-dev~1.2.5'
WORKDIR /src
COPY . .
# For /version; the build does not read them from git.
ARG STEERSMAN_GIT_COMMIT STEERSMAN_GIT_TREE_STATE STEERSMAN_BUILD_DATE
# The caches are not shared with builds of other projects.
RUN --mount=type=cache,id=steersman-registry,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,id=steersman-target,target=/src/target,sharing=locked \
    deploy/build && cp target/dist/steersman /steersman

# No shell, no files, no certificates: in a pod the API server is verified by the CA of the service account. With --kubeconfig,
# the file has to contain a certificate-authority.
FROM scratch
ARG STEERSMAN_GIT_COMMIT STEERSMAN_BUILD_DATE
LABEL org.opencontainers.image.title="steersman" \
      org.opencontainers.image.description="A controller manager for Kubernetes: several controllers on shared caches in one binary" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="${STEERSMAN_GIT_COMMIT}" \
      org.opencontainers.image.created="${STEERSMAN_BUILD_DATE}"
COPY --from=build /steersman /steersman
USER 65532:65532
ENTRYPOINT ["/steersman"]
