# syntax=docker/dockerfile:1

# Alpine's target is musl, so what is built is static and needs nothing of an image.
FROM rust:1.91-alpine3.22 AS build
RUN apk add --no-cache gcc musl-dev
WORKDIR /src
COPY . .
# Without the sandbox: a cluster has an API server.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked --package coxswain --no-default-features \
    && cp target/dist/coxswain /coxswain

# No shell, no files, no certificates: in a pod the API server is verified by the authority that comes with the service
# account. With --kubeconfig, the file has to name an authority.
FROM scratch
COPY --from=build /coxswain /coxswain
USER 65532:65532
ENTRYPOINT ["/coxswain"]
