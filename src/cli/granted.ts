// Granted: the question before something is asked of a cloud that the settings do not grant, or of a TPU that is in use.

import type { Client, Ref } from '../app/client.ts';
import type { JobSpec } from '../core/spec.ts';
import type { Cli } from './context.ts';
import { confirm } from './prompt.ts';

/**
 * True when it may go on: the grants cover it and nobody else uses it, or the user says yes. Throws a usage error where nobody
 * can be asked. `doing` is what would be done (`create it`), `undone` what was not (`Nothing was created`).
 */
export async function isGranted(
  cli: Cli,
  client: Client,
  asked: JobSpec | Ref,
  doing: string,
  undone: string,
): Promise<boolean> {
  const beyond = await client.beyond(asked);
  if (beyond === null) return true;
  const cost = beyond.cost === null ? '' : `. It costs ${beyond.cost}`;
  const said = `${beyond.sentence}${cost}`;
  if (beyond.mayContinue === true) {
    if (cli.yes) return true;
    if (!cli.io.stdin.isTerminal || !cli.io.stderr.isTerminal) {
      cli.note(`note: ${said}.`);
      return true;
    }
    if (await confirm(cli, `${said}. ${doing}?`, undone)) return true;
    cli.note(`${undone}. ${beyond.remedy}`);
    return false;
  }
  const refused = `${undone}: ${said}. ${beyond.remedy}`;
  if (await confirm(cli, `${said}. ${doing} all the same?`, refused)) return true;
  cli.note(`${undone}.`);
  return false;
}
