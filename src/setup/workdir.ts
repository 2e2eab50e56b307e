// Workdir: puts the job's copy of a working directory into its place on a worker. The files themselves are sent before
// (remote/workdir/send.ts), because they are too many and too large to travel inside a step.

import { workdirKey } from '../core/job.ts';
import type { SetupStep } from '../core/spec.ts';
import { minute } from '../core/time.ts';

/**
 * The step for the first copy; `stepsOf` of core/job.ts makes those for later ones of it. It has no check of its own: whoever sends the files has asked what the worker lacks, and what it does
 * not lack is not in the archive. Its key is a proof in the job's own folder, so the number of the copy is enough.
 */
export function workdirStep(): SetupStep {
  return {
    name: 'workdir',
    key: workdirKey(1),
    check: null,
    apply,
    files: [],
    workdir: 1,
    timeout: 10 * minute,
  };
}

/** `$0` is `<root>/steps/<allocation>/<key>/try_<n>/apply`; see remote/run-folder.ts. */
const apply = `root=\${0%/steps/*}
cd "$root" || exit 1
[ -f workdir.files ] || { echo 'The working directory has not arrived.' >&2; exit 1; }
mkdir -p workdir && cd workdir || exit 1
count=$(tr -dc '\\000' <../workdir.remove | wc -c)
if [ $((count)) -gt 0 ]; then
  xargs -0 rm -rf -- <../workdir.remove || exit 1
fi
tar -x -z -p --no-same-owner -f ../workdir.files || exit 1
cd "$root" || exit 1
mv workdir.names workdir.sent || exit 1
rm -f workdir.files workdir.files.* workdir.remove workdir.remove.* workdir.names.*
echo "The working directory is in $root/workdir."
`;
