// Plants: mistakes that can be switched on, to prove that a law can fail.
// A law that has never been broken may be a law that looks the other way. So the places where a slip would hurt carry a
// switch; the simulator turns one on at a time and must find it. Production code never imports `plantForTest`: the set
// stays empty, the bundle drops its only writer, and a question to it costs one comparison.

/** One mistake that can be switched on. */
export interface Plant {
  readonly name: string;
  /** The law of design.md that must notice it. */
  readonly law: number;
  /** What the program does wrong while it is on. */
  readonly sentence: string;
}

/** All of them, with the law that is there to find each. */
export const plants = [
  { name: 'unknown-is-absent', law: 1, sentence: 'A look at the cloud that failed counts as "it is not there".' },
  {
    name: 'unknown-worker-is-lost',
    law: 1,
    sentence: 'A worker that does not answer once ends the attempt without any grace.',
  },
  {
    name: 'act-before-commit',
    law: 2,
    sentence: 'A request is acted on although the record does not say that it was made.',
  },
  {
    name: 'release-the-newest',
    law: 3,
    sentence: 'The release of an earlier allocation is sent to the newest one.',
  },
  {
    name: 'late-reply-to-newest',
    law: 3,
    sentence: 'A reply about an earlier allocation is folded into the newest one.',
  },
  {
    name: 'place-without-pace',
    law: 12,
    sentence: 'A place that has just said that it has nothing is asked again at once, and the others are forgotten.',
  },
  {
    name: 'place-in-record',
    law: 7,
    sentence: 'Each refusal of a place leaves an allocation in the record.',
  },
  { name: 'asked-is-stopped', law: 4, sentence: 'A program counts as ended once it was asked to stop.' },
  {
    name: 'no-gang',
    law: 4,
    sentence: 'When one worker fails the attempt counts as ended, and the others are not stopped.',
  },
  {
    name: 'silent-worker-is-dead',
    law: 4,
    sentence: 'A worker that does not answer counts as proof that its program has ended.',
  },
  {
    name: 'start-before-setup',
    law: 5,
    sentence: 'The command is started on ready workers whether or not their steps are proven.',
  },
  { name: 'setup-on-one-worker', law: 5, sentence: 'The proofs of worker 0 count for all workers.' },
  {
    name: 'release-not-verified',
    law: 6,
    sentence: 'Capacity counts as gone once its release was asked, without a look.',
  },
  { name: 'skip-double-look', law: 6, sentence: 'One look that misses it is enough for capacity to count as gone.' },
  { name: 'keep-after-finish', law: 6, sentence: 'A job that failed keeps its capacity without being told to.' },
  {
    name: 'setup-without-budget',
    law: 7,
    sentence:
      'Failures of the setup count in no budget of their own, so a setup that cannot succeed goes on under a loop.',
  },
  { name: 'budget-ignored', law: 7, sentence: 'Failed attempts are followed by new ones without limit.' },
  {
    name: 'last-word-ignored',
    law: 7,
    sentence: 'A rule answers the end of a job whose owner wanted no further attempt.',
  },
  { name: 'restless', law: 8, sentence: 'Every look rewrites the record, whether or not anything changed.' },
  { name: 'silent-end', law: 9, sentence: 'An attempt ends in the record and history has no line for it.' },
  { name: 'forget-wake', law: 10, sentence: 'A job that waits for capacity forgets to look again.' },
  {
    name: 'never-kill',
    law: 10,
    sentence: 'A program that ignores its stop signal is asked for ever and never killed.',
  },
] as const satisfies readonly Plant[];

/** Mistakes which only a whole world can show, most of them of the loop around the rules. Law 11 is the simulator's: logs are whole. */
export const loopPlants = [
  { name: 'act-without-commit', law: 2, sentence: 'What was decided is done before it is written down.' },
  { name: 'unclear-is-refused', law: 1, sentence: 'A lost reply counts as a refusal for good.' },
  {
    name: 'look-remembered',
    law: 6,
    sentence: 'The first look at an allocation is remembered instead of looking again.',
  },
  {
    name: 'any-boot-will-do',
    law: 5,
    sentence: 'A worker that restarted after it was set up starts the command all the same.',
  },
  {
    name: 'clock-believed',
    law: 10,
    sentence: 'What was noted while the clock was ahead is waited for until that day comes.',
  },
  { name: 'barred-for-good', law: 10, sentence: 'A place that lacked a right is never asked again.' },
  { name: 'zone-not-avoided', law: 12, sentence: 'A zone that a rule has turned from is asked all the same.' },
  { name: 'hold-cut-short', law: 6, sentence: 'What a failed job was to hold for a look is let go at once.' },
  { name: 'standing-let-go', law: 3, sentence: 'A job that has settled lets go of the TPU that was there before it.' },
  {
    name: 'waits-in-vain',
    law: 10,
    sentence: 'Waiting for capacity ends after five minutes although no limit is set.',
  },
  {
    name: 'step-failure-to-newest',
    law: 7,
    sentence: 'A setup step that fails late counts in the attempt that is open by then.',
  },
  { name: 'slots-for-all', law: 13, sentence: 'Every job of this machine may run at once.' },
  { name: 'sweep-deletes-unknown', law: 3, sentence: 'The sweep deletes what no job here has ever claimed.' },
  { name: 'sweep-forgets', law: 6, sentence: 'What appears after its release is only written down.' },
  { name: 'revision-not-checked', law: 9, sentence: "A pass that met somebody's word commits over it." },
  { name: 'lease-not-checked', law: 4, sentence: 'A controller that was replaced goes on acting.' },
  { name: 'wakeful', law: 8, sentence: 'The controller wakes every second, whether or not anything is due.' },
  { name: 'mirror-repeats', law: 11, sentence: 'A log that is followed again is copied from its beginning.' },
  {
    name: 'one-checkpoint-folder',
    law: 14,
    sentence: 'All jobs of one checkpoint_dir keep their checkpoints in the same folder.',
  },
  { name: 'checkpoints-of-all', law: 14, sentence: 'Every entry of the checkpoint folder counts as the job’s own.' },
  {
    name: 'rerun-resumes-old',
    law: 14,
    sentence: 'After a start from the beginning, checkpoints from before it still count.',
  },
  { name: 'last-words-lost', law: 11, sentence: 'A machine is let go without waiting for the rest of its logs.' },
] as const satisfies readonly Plant[];

/** The name of one of them; `planted` takes no other. */
export type PlantName = (typeof plants)[number]['name'] | (typeof loopPlants)[number]['name'];

const active = new Set<PlantName>();

/** Whether that mistake is switched on: never in production. */
export function planted(name: PlantName): boolean {
  return active.size > 0 && active.has(name);
}

/** Switches one mistake on until the returned function is called. For tests and the simulator only. */
export function plantForTest(name: PlantName): () => void {
  active.add(name);
  return () => void active.delete(name);
}
