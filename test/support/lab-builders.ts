// Sample users, jobs and TPUs of a lab for tests.

import { type LabUser } from '../../src/lab/users.ts';
import { defaultAliases } from '../../src/lab/names.ts';
import { defaultUserSettings } from '../../src/lab/user-settings.ts';
import type { SheetCopy } from '../../src/lab/sheet-outbox.ts';
import type { LabTpu } from '../../src/lab/tpus.ts';
import type { LabJob, LabWindow, WindowReport } from '../../src/lab/lab-store.ts';
import { noon } from './builders.ts';

export { noon };

/** A new user, whose session and name in the sheet are the name. */
export function aUser(
  name: string,
  changes: Partial<LabUser> = {},
): Omit<LabUser, 'id'> & { readonly id: number | null } {
  return {
    name,
    id: null,
    role: 'member',
    session: name,
    sheetName: name,
    logins: [],
    directories: {},
    aliases: defaultAliases,
    // A fixed zone, so that no test depends on the zone of the machine.
    settings: { ...defaultUserSettings, time_zone: 'us' },
    nextWindow: 1,
    createdAt: noon,
    newsSeen: 0,
    ...changes,
  };
}

export function aLabJob(job: string, user: string, changes: Partial<LabJob> = {}): LabJob {
  return {
    job,
    user,
    directory: '/srv/code',
    directoryNumber: 1,
    tpu: 'kmh-tpuvm-v2-32-1',
    configs: ['--config.training.learning_rate=0.01'],
    tag: null,
    monitor: true,
    logStage: false,
    parent: null,
    baseStage: 0,
    ...changes,
  };
}

export function aTpu(name: string, changes: Partial<LabTpu> = {}): LabTpu {
  return {
    name,
    project: null,
    zone: 'europe-west4-a',
    accelerator: 'v2-32',
    pricing: 'ondemand',
    runtimeVersion: null,
    ...changes,
  };
}

/** Window 1 of the job's first attempt, without a report. */
export function aWindow({ job, user }: LabJob, changes: Partial<LabWindow> = {}): LabWindow {
  return {
    user,
    window: 1,
    job,
    attempt: 1,
    openedAt: noon,
    report: null,
    finishedAt: null,
    closedAt: null,
    clearedAt: null,
    ...changes,
  };
}

/** The copy of a spreadsheet, in memory. */
export function aSheetCopy(): SheetCopy {
  let kept: ReturnType<SheetCopy['read']> = null;
  return { read: () => kept, write: (contents, readAt) => (kept = { contents, readAt }) };
}

export function aReport(logFolder: string, stageFolder: string, tpu = 'kmh-tpuvm-v2-32-1'): WindowReport {
  return { logFolder, stageFolder, tpu, startTime: '20250420_011026', at: noon };
}
