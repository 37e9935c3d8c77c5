// What goes into the container images beside the programs. A module of its own, so that
// the root certificates are pinned here and the product's go.mod stays as it is.
module briefrail/deploy/docker/rootfs

go 1.26.0

require golang.org/x/crypto/x509roots/fallback v0.0.0-20261030153154-30a33513ff6d
