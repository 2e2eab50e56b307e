// Messages for tests of the senders.

import type { Notice } from '../../src/app/notifications/notice.ts';
import type { Message } from '../../src/app/notifications/outbox.ts';

/** 2026-11-22T12:00:00Z. */
export const noon = Date.UTC(2026, 10, 22, 12);

/** An attempt that was preempted. */
export function aNotice(changes: Partial<Notice> = {}): Notice {
  return {
    event: 'preempted',
    at: noon,
    job: '000042',
    name: 'llama',
    owner: 'ada',
    backend: 'tpu',
    attempt: 2,
    accelerator: 'v4-8',
    location: 'us-central2-b',
    message: 'ending attempt 2: preempted',
    ...changes,
  };
}

/** A message with these notices. */
export function aMessage(notices: readonly Notice[] = [aNotice()], changes: Partial<Message> = {}): Message {
  return { id: 7, key: 'jobman-abc123-7', recipient: 'slack', createdAt: noon, notices, ...changes };
}
