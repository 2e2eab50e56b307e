// history: every event of a job, and on request its life on an axis of time.

import type { Client, Ref } from '../../app/client.ts';
import { eventSentence } from '../../app/history.ts';
import { onEither } from '../cluster/either.ts';
import type { HistoryFlags } from '../cluster/kept.ts';
import { printEachRef, type Cli, type GlobalFlags } from '../context.ts';
import { replaceKilled } from '../controller.ts';
import { eventJson } from '../../app/json.ts';
import { historyLines, timelineLines } from '../render/history.ts';
import { inertWord } from '../../app/figures.ts';

const plainColumns = 80;

export async function history(
  cli: Cli,
  flags: HistoryFlags & GlobalFlags,
  ...args: readonly string[]
): Promise<number> {
  return onEither(cli, flags, args, {
    record: (client, refs) => historyOfRecord(cli, client, refs, flags),
    async cluster(cluster, job) {
      const { printHistory } = await import('../cluster/kept.ts');
      return printHistory(cli, await cli.services.keeper(), job, cluster, flags);
    },
    evenHidden: true,
    async kept(keeper, { job }) {
      const { printHistory } = await import('../cluster/kept.ts');
      return printHistory(cli, keeper, job, null, flags);
    },
  });
}

async function historyOfRecord(cli: Cli, client: Client, refs: readonly Ref[], flags: HistoryFlags): Promise<number> {
  const { io, screen } = cli;
  const code = await printEachRef(cli, refs, async (ref) => {
    // A name is found once: it may mean another job a moment later.
    const view = await client.show(ref);
    const events = await client.events(view.id, 0);
    const columns = io.stdout.isTerminal ? io.stdout.size().columns : plainColumns;
    const lines = () => [
      screen.out('bold', `${view.id} ${inertWord(view.name)} (${inertWord(view.user)})`),
      ...(flags.timeline === true ? timelineLines(view, columns, io.now()) : []),
      ...historyLines(
        events.map(({ event }) => ({ at: event.at, sentence: eventSentence(event, view) })),
        io.stdout.isTerminal ? columns : null,
        io.now(),
      ),
    ];
    return { objects: () => events.map(({ seq, event }) => eventJson(seq, event)), lines };
  });
  await replaceKilled(cli, client);
  return code;
}
