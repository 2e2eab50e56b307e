// Files: those of `job.files`, copied to each worker before anything else.

import { createHash } from 'node:crypto';
import type { SetupStep } from '../core/spec.ts';
import { minute } from '../core/time.ts';
import type { FilesModule } from './modules.ts';
import { step } from './step.ts';

/** The check asks whether every file is there with the bytes it should have; so does the apply, once they are written. */
export function filesStep(module: FilesModule): SetupStep {
  const sums = module.files.map(({ to, base64 }) => {
    const sum = createHash('sha256').update(Buffer.from(base64, 'base64')).digest('hex');
    // Paths are read from the login folder; the parser has made sure that they are one plain line.
    return `${sum}  ${to.startsWith('~/') ? `./${to.slice(2)}` : to}`;
  });
  const compare = `cd "$HOME" || exit 1\nsha256sum --check --quiet <<'JOBMAN_END'\n${sums.join('\n')}\nJOBMAN_END\n`;
  return step({
    name: 'files',
    check: compare,
    apply: `${compare}code=$?\n[ "$code" -eq 0 ] || echo 'The files above did not arrive as they were sent.' >&2\nexit "$code"\n`,
    files: module.files.map((file) => ({ kind: 'frozen', ...file })),
    timeout: 5 * minute,
  });
}
