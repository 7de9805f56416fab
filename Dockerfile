# syntax=docker/dockerfile:1

# Alpine's target is musl: the binary is static.
FROM rust:1.91-alpine3.22 AS build
# make builds jemalloc.
RUN apk add --no-cache gcc make musl-dev
WORKDIR /src
COPY . .
# For /version; the build does not read them from git.
ARG COXSWAIN_GIT_COMMIT COXSWAIN_GIT_TREE_STATE COXSWAIN_BUILD_DATE
# Without the sandbox, which a cluster does not need.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked --package coxswain --no-default-features \
        --features jemalloc,pprof \
    && cp target/dist/coxswain /coxswain

# No shell, no files, no certificates: in a pod the API server is verified by the CA of the service account. With --kubeconfig,
# the file has to contain a certificate-authority.
FROM scratch
COPY --from=build /coxswain /coxswain
USER 65532:65532
ENTRYPOINT ["/coxswain"]
