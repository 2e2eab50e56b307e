// Proposals where a command takes a setup step of a job: behind `logs 42 --step`, and behind `setup 42`.

import type { Candidate, PartialLine, Proposal } from '../command.ts';
import { jobIds } from './ids.ts';

/** Jobs, and behind a job its steps. */
export async function setupSteps(line: PartialLine): Promise<readonly Candidate[]> {
  return line.args.length === 0 ? jobIds(line) : line.args.length === 1 ? stepsOf(line) : [];
}

/** The steps of the job that the line names, and the logs that every job has. */
export async function logSteps(line: PartialLine): Promise<readonly Candidate[]> {
  return [
    ...(await stepsOf(line)),
    { word: 'command', summary: 'what the command printed' },
    { word: 'job', summary: 'the life of the job' },
    { word: 'tpu', summary: 'what was asked of the cloud, and answered' },
  ];
}

async function stepsOf({ services, args: [ref] }: PartialLine): Promise<readonly Proposal[]> {
  try {
    const job = ref === undefined ? undefined : await (await services.client()).show(ref);
    return (job?.spec.steps ?? []).map(({ name }) => ({ word: name, summary: 'a setup step' }));
  } catch {
    return [];
  }
}
