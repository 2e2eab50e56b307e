// The environment of our own programs that go on in the background. They are started from some shell, often the very one in
// which a job's secrets stand, and what they start inherits from them: another job's program on this machine, a cloud's workers.

import { existsSync } from 'node:fs';
import type { Io } from '../app/services.ts';
import type { Job } from '../core/job.ts';
import type { JobSpec } from '../core/spec.ts';
import { recordFile } from './paths.ts';
import { lookAtRecord } from './record-look.ts';

/** Ended jobs that are still asked: they may be resumed, and their secrets are secrets all the same. */
const settledMost = 100;

/** The variables that jobman and the programs it calls go by. A job that calls one of them a secret does not take it from them. */
const needed =
  /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|TMPDIR|XDG_.*|SSH_.*|JOBMAN_.*|GOOGLE_.*|CLOUDSDK_.*|GCE_.*|HTTPS?_PROXY|NO_PROXY|ALL_PROXY|NODE_.*)$/i;

/** By it the processes of an attempt are known, and ended with it: a program that goes on after the attempt must not have it. */
const attemptMark = 'JOBMAN_RUN';

/**
 * This environment without the variables that secrets of jobs are taken from: of those on record, and of the one that is about
 * to be created. The controller does not need them: their values were kept when the job was created. A record that cannot be
 * read takes nothing away; whoever needs it says what is the matter with it.
 */
export async function backgroundEnvironment(io: Io, home: string, coming?: JobSpec): Promise<Io['env']> {
  const secret = new Set([...variablesOf(coming), ...(await onRecord(home)).flatMap(({ spec }) => variablesOf(spec))]);
  const isKept = (name: string): boolean => name !== attemptMark && (!secret.has(name) || needed.test(name));
  return Object.fromEntries(Object.entries(io.env).filter(([name]) => isKept(name)));
}

function variablesOf(spec: JobSpec | undefined): readonly string[] {
  return Object.values(spec?.command.secrets ?? {}).flatMap((source) =>
    source.kind === 'environment' ? [source.variable] : [],
  );
}

async function onRecord(home: string): Promise<readonly Job[]> {
  const file = recordFile(home);
  if (!existsSync(file)) return [];
  try {
    return await lookAtRecord(file, async (store) => (await store.list({ settledMost })).jobs);
  } catch {
    return [];
  }
}
