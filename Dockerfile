# syntax=docker/dockerfile:1

# Alpine's target is musl: the binary is static.
FROM rust:1.91-alpine3.22 AS build
RUN apk add --no-cache gcc musl-dev
WORKDIR /src
COPY . .
# Without the sandbox, which a cluster does not need.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked --package coxswain --no-default-features \
    && cp target/dist/coxswain /coxswain

# No shell, no files, no certificates: in a pod the API server is verified by the CA of the service account. With --kubeconfig,
# the file has to contain a certificate-authority.
FROM scratch
COPY --from=build /coxswain /coxswain
USER 65532:65532
ENTRYPOINT ["/coxswain"]
