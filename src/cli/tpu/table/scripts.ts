// Commands of `tpu` that scripts call.

import { grouped } from '../../command.ts';
import { tpuCommand } from '../row.ts';
import type { TpuBody } from '../tpu-cli.ts';

/** For the help and for people who type it; scripts get there by the short way of run-tpu.ts. */
async function scriptWord(verb: 'upd-log' | 'finish-job'): Promise<TpuBody> {
  const { tell } = await import('../commands/upd-log.ts');
  return (desk, words) => tell(verb, words.raw, desk.services);
}

export const scripts = grouped('In scripts', [
  tpuCommand({
    names: ['upd-log'],
    usage: '<session:window> <log folder> <stage folder> <tpu> <time>',
    summary: 'Tell where a run writes its log and has its code; run_remote.sh calls it',
    examples: [['tpu upd-log $current_window $LOGDIR $STAGEDIR $VM_NAME $now', 'as in run_remote.sh']],
    exits: { 3: 'there is no such window' },
    takes: { raw: true },
    load: () => scriptWord('upd-log'),
  }),
  tpuCommand({
    names: ['finish-job'],
    usage: '<session:window>',
    summary: 'Tell that a run has succeeded; run_remote.sh calls it',
    examples: [['tpu finish-job $current_window', 'as in run_remote.sh']],
    exits: { 3: 'there is no such window' },
    takes: { raw: true },
    load: () => scriptWord('finish-job'),
  }),
  tpuCommand({
    names: ['__begin'],
    hidden: true,
    summary: "What a job's script asks when it begins",
    examples: [],
    takes: { raw: true },
    load: async () => (await import('../commands/begin.ts')).begin,
  }),
  tpuCommand({
    names: ['__closed'],
    hidden: true,
    usage: '<job> <attempt>',
    summary: 'What the window of an attempt says when it was closed',
    examples: [],
    takes: { raw: true },
    load: async () => (await import('../commands/closed.ts')).closed,
  }),
  tpuCommand({
    names: ['__end'],
    hidden: true,
    usage: '<code>',
    summary: "What a job's script asks when it ends",
    examples: [],
    takes: { raw: true },
    load: async () => (await import('../commands/end.ts')).end,
  }),
]);
