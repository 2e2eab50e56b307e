// Apt: installing a package on a freshly booted machine, where another package manager is often still at work.

/**
 * Shell functions for Debian and Ubuntu hosts. `apt_update` and `apt_install PACKAGE...` wait until nobody holds the package
 * database, ten minutes at most: a fresh machine runs its own updates, and whoever is killed in the middle of one leaves the
 * database broken.
 */
export const aptFunctions = `
# The administrator of a container often has no sudo, and needs none.
if [ "$(id -u)" -eq 0 ] && ! command -v sudo >/dev/null; then
  sudo() {
    while case $1 in -*) true ;; *) false ;; esac; do shift; done
    "$@"
  }
fi
apt_wait() {
  waited=0
  while sudo -n fuser /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/apt/lists/lock >/dev/null 2>&1; do
    if [ "$waited" -ge 600 ]; then
      echo 'Another package manager has held the lock of dpkg for ten minutes.' >&2
      return 1
    fi
    [ "$((waited % 60))" -ne 0 ] || echo 'Waiting for another package manager to finish.'
    sleep 5
    waited=$((waited + 5))
  done
}
apt_try() {
  tries=1
  until apt_wait && sudo -n env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@"; do
    if [ "$tries" -ge 3 ]; then
      echo "apt-get $* failed three times." >&2
      return 1
    fi
    tries=$((tries + 1))
    sleep 5
  done
}
apt_update() { apt_try -q update; }
apt_install() { apt_try -q install -y "$@"; }
`;
