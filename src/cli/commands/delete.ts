// delete: off the list, once the capacity is seen gone.

import type { JobView, Ref } from '../../app/client.ts';
import { exitCode } from '../../app/errors.ts';
import { costText } from '../../app/cost.ts';
import { refsOf, type Cli, type GlobalFlags } from '../context.ts';
import { confirm } from '../prompt.ts';
import { askAll, askOne, type AskFlags } from './ask.ts';

export async function deleteJobs(
  cli: Cli,
  flags: AskFlags & GlobalFlags & { readonly force: boolean | undefined },
  ...args: readonly Ref[]
): Promise<number> {
  const client = await cli.services.client();
  const refs = await refsOf(client, args, flags.jobName);
  return askAll(cli, client, refs, async (ref) => {
    const view = await client.show(ref);
    const held = heldBy(view);
    if (held !== undefined) {
      const question = `${view.id} ${view.name} holds ${held}. End its program, release it and delete the job?`;
      const refused = `${view.id} ${view.name} holds ${held}; it was not deleted.`;
      if (!(await confirm(cli, question, refused))) {
        cli.note(refused);
        return exitCode.failed;
      }
    }
    return askOne(cli, client, view.id, 'delete', { force: flags.force === true });
  });
}

/** `v4-8, which costs about $4.00/h`: owned capacity that may exist and was not let go; undefined when there is none. */
function heldBy(view: JobView): string | undefined {
  const held = view.allocations.some(
    ({ ownership, requested, released, gone }) =>
      ownership === 'owned' && requested !== null && released === null && gone === null,
  );
  if (!held) return undefined;
  return view.pricePerHour === null
    ? view.accelerator
    : `${view.accelerator}, which costs ${costText(view, view.pricePerHour)}`;
}
