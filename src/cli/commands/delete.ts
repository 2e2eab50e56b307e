// delete: off the list, once the capacity is seen gone.

import type { Client, JobView, Ref } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { costText } from '../../app/cost.ts';
import { onEither } from '../cluster/either.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { confirm } from '../prompt.ts';
import { askAll, askOne, type AskFlags } from './ask.ts';

/** The flags of `jobman delete`. */
export interface DeleteFlags extends AskFlags {
  readonly force?: boolean | undefined;
  readonly all?: boolean | undefined;
  readonly own?: boolean | undefined;
}

export async function deleteJobs(cli: Cli, flags: DeleteFlags & GlobalFlags, ...args: readonly Ref[]): Promise<number> {
  if (flags.all === true) {
    if (args.length > 0 || flags.jobName !== undefined) {
      throw new JobmanError('--all means every job of the namespace; a job beside it says nothing.', exitCode.usage);
    }
    const { deleteAllJobs } = await import('../cluster/delete.ts');
    return deleteAllJobs(cli, flags);
  }
  if (flags.own === true) {
    throw new JobmanError('--own goes with --all: only those jobs of the namespace that are yours.', exitCode.usage);
  }
  return onEither(cli, flags, args, {
    changes: true,
    record: (client, refs) => deleteOfRecord(cli, client, refs, flags),
    async cluster(cluster, job) {
      const { deleteClusterJob } = await import('../cluster/delete.ts');
      return deleteClusterJob(cli, cluster, job);
    },
    async kept(keeper, job, cluster) {
      const { hideKept } = await import('../cluster/kept.ts');
      return hideKept(cli, keeper, job, cluster);
    },
  });
}

async function deleteOfRecord(
  cli: Cli,
  client: Client,
  refs: readonly Ref[],
  flags: DeleteFlags & GlobalFlags,
): Promise<number> {
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

/**
 * `v4-8, which costs about $4.00/h`: owned capacity that may exist and that its owner has not released; undefined when there
 * is none, as while the cloud has refused every request. After `cancel` the controller releases it, whether it has begun to or not.
 */
function heldBy(view: JobView): string | undefined {
  const isReleased = view.desired === 'end' || view.desired === 'delete';
  const held =
    !isReleased &&
    view.allocations.some(
      ({ ownership, state, requested, released, gone }) =>
        ownership === 'owned' && state !== 'refused' && requested !== null && released === null && gone === null,
    );
  if (!held) return undefined;
  return view.pricePerHour === null
    ? view.accelerator
    : `${view.accelerator}, which costs ${costText(view, view.pricePerHour)}`;
}
