// Phase: the one word shown for a job, always computed and never stored.

/** In the order in which a job usually goes through them. */
export const phases = [
  'queued',
  'provisioning',
  'setup',
  'running',
  'recovering',
  'stopping',
  'succeeded',
  'failed',
  'stopped',
  'cancelled',
] as const;

export type Phase = (typeof phases)[number];
