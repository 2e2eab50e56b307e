// Former words: commands of the program before this one that are gone on purpose, each with what there is instead. They served
// its lock, its one file of data and its watching process, none of which there is here.

const noLock = 'There is no lock to take or to give back: every command is one transaction.';
const noWatcher =
  'There is no MONITOR: the controller looks after jobs, and starts by itself; `jobman controller status` tells of it.';

const instead: Readonly<Record<string, string>> = {
  init: 'Nothing has to be set up; `tpu init-lab` makes a folder that a group shares, and touches no job.',
  lock: noLock,
  unlock: noLock,
  rl: noLock,
  'lock-data': noLock,
  'unlock-data': noLock,
  'rm-lock': noLock,
  'set-monitor-config': noWatcher,
  '-smc': noWatcher,
  'get-monitor-config': noWatcher,
  '-gmc': noWatcher,
  '-Ml': noWatcher,
  '-Mc': noWatcher,
  '-agc': 'Keys for configs are per user: `tpu -a`, `tpu -sa`.',
  '-mgc': 'Keys for configs are per user: `tpu -a`, `tpu -sa`.',
  maj: '`tpu monitor` shows the jobs of one user, `jobman list --watch` those of all.',
  caj: '`tpu check` shows the jobs of one user, `jobman list` those of all.',
  rs: '`tpu ack` has the jobs looked at now.',
  'restart-run': '`tpu restart` restarts the machines of a TPU, `tpu run` runs on it.',
  'change-ip': 'A login machine that has moved or restarted changes nothing of a job.',
  'debug-stats': '`tpu doctor` looks for what does not fit together.',
  'debug-kill': '`tpu kill` ends a job, `tpu doctor` looks for what does not fit together.',
  gtis: '`tpu find` shows what the booking sheet says.',
  twsi: '`tpu book` and `tpu release` write to the booking sheet.',
};

/** The replacement of that word; undefined for any other word. */
export function formerWord(word: string): string | undefined {
  return Object.hasOwn(instead, word) ? instead[word] : undefined;
}

/** All of them, for the test that holds the answers to the commands that there are. */
export const formerWords: readonly string[] = Object.keys(instead);
