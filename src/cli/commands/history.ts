import type { Client, Ref } from '../../app/client.ts';
import { describeEvent } from '../../app/history.ts';
import { handleJobs } from '../cluster/resolve-jobs.ts';
import type { HistoryFlags } from '../cluster/archive.ts';
import { printEachJob, type Cli, type GlobalFlags } from '../context.ts';
import { restartIfKilled } from '../controller.ts';
import { historyLines, timelineLines } from '../render/history.ts';
import { escapeLine } from '../../app/format.ts';

const plainColumns = 80;

export async function history(
  cli: Cli,
  flags: HistoryFlags & GlobalFlags,
  ...args: readonly string[]
): Promise<number> {
  return handleJobs(cli, flags, args, {
    stored: (client, refs) => printStoredHistory(cli, client, refs, flags),
    async cluster(cluster, job) {
      const { printHistory } = await import('../cluster/archive.ts');
      return printHistory(cli, await cli.services.clusterArchive(), job, cluster, flags);
    },
    includesHidden: true,
    async archived(archive, { job }) {
      const { printHistory } = await import('../cluster/archive.ts');
      return printHistory(cli, archive, job, null, flags);
    },
  });
}

async function printStoredHistory(
  cli: Cli,
  client: Client,
  refs: readonly Ref[],
  flags: HistoryFlags,
): Promise<number> {
  const { io, screen } = cli;
  const code = await printEachJob(cli, refs, async (ref) => {
    // Resolve the name once: it may mean another job later.
    const view = await client.show(ref);
    const events = await client.events(view.id, 0);
    const columns = io.stdout.isTerminal ? io.stdout.size().columns : plainColumns;
    const lines = () => [
      screen.styleOut('bold', `${view.id} ${escapeLine(view.name)} (${escapeLine(view.owner)})`),
      ...(flags.timeline === true ? timelineLines(view, columns, io.now()) : []),
      ...historyLines(
        events.map(({ event }) => ({ at: event.at, message: describeEvent(event, view) })),
        io.stdout.isTerminal ? columns : null,
        io.now(),
      ),
    ];
    return { objects: () => events.map(({ seq, event }) => ({ seq, ...event })), lines };
  });
  await restartIfKilled(cli, client);
  return code;
}
