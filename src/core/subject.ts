// Subject: the one thing that an action acts on, and that its outcome tells of; the same for tries that failed on one worker.

import type { WorkerId } from './spec.ts';

/** An action is under way at most once for each subject. */
export type Subject =
  | { readonly kind: 'request' | 'release'; readonly allocation: number }
  | { readonly kind: 'step'; readonly allocation: number; readonly worker: number; readonly step: string }
  | { readonly kind: 'start'; readonly attempt: number; readonly worker: WorkerId }
  | { readonly kind: 'stop'; readonly attempt: number; readonly worker: WorkerId; readonly how: 'ask' | 'kill' };

/** A text that differs for each subject, as a key of maps and rows: `start/2/0`. Only the store reads it back. */
export function subjectKey(subject: Subject): string {
  switch (subject.kind) {
    case 'request':
    case 'release':
      return `${subject.kind}/${subject.allocation}`;
    case 'step':
      return `step/${subject.allocation}/${subject.worker}/${subject.step}`;
    case 'start':
      return `start/${subject.attempt}/${subject.worker}`;
    case 'stop':
      return `stop/${subject.attempt}/${subject.worker}/${subject.how}`;
  }
}

/** A thing that an attempt tries on one worker: a setup step, or to start or end the command there. */
export type WorkerTask =
  | { readonly kind: 'step'; readonly worker: number; readonly step: string }
  | { readonly kind: 'start' | 'stop'; readonly worker: WorkerId };

/** True for two names of one task. */
export function isSameTask(one: WorkerTask, other: WorkerTask): boolean {
  return taskKey(one) === taskKey(other);
}

/** A text that differs for each task: `3/docker`, `start/3`. Only the store reads it back. */
export function taskKey(task: WorkerTask): string {
  return task.kind === 'step' ? `${task.worker}/${task.step}` : `${task.kind}/${task.worker}`;
}
