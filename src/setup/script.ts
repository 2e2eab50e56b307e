import { createHash } from 'node:crypto';
import { quote } from '../catalogue/shell.ts';
import type { SetupStep, StepFile } from '../core/model/spec.ts';
import type { Duration } from '../core/model/time.ts';

/** Quotes a path on a worker; `~` and `~/x` are below the login folder of the user who runs the script. */
export function quotePath(path: string): string {
  if (path === '~') return '"$HOME"';
  return path.startsWith('~/') ? `"$HOME"/${quote(path.slice(2))}` : quote(path);
}

/** Writes `text` to `target` (shell syntax) without expansion. Not encoded, so that placeholders stay replaceable. */
export function writeFile(target: string, text: string): string {
  const lines = text.split('\n');
  let end = 'JOBMAN_END';
  while (lines.includes(end)) end += '_';
  return `cat >${target} <<'${end}'\n${text.endsWith('\n') || text === '' ? text : `${text}\n`}${end}\n`;
}

/** The key covers the scripts and the contents of files. Of a file that is read only at the setup, it covers the name. */
export function createStep(parts: {
  readonly name: string;
  readonly check: string | null;
  readonly apply: string;
  readonly files?: readonly StepFile[];
  readonly timeoutMs: Duration;
}): SetupStep {
  const { name, check, apply, files = [], timeoutMs } = parts;
  return { name, key: contentKey([name, check, apply, files]), check, apply, files, timeoutMs };
}

/** Sixteen hexadecimal digits that change with any of the values. */
export function contentKey(values: unknown): string {
  return createHash('sha256').update(JSON.stringify(values)).digest('hex').slice(0, 16);
}

/** `apt_update` and `apt_install PACKAGE...` wait up to ten minutes while a new machine updates itself. */
export const aptFunctions = `
# root in a container needs no sudo, and often has none.
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
      echo 'Another package manager has held the dpkg lock for ten minutes.' >&2
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
