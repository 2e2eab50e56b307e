// Notify: the events that jobman reports to people, the choice of events and recipients, and the form of a recipient.

/** Each event that can be reported. docs/notifications.md has the same meanings. */
const notifyEvents = {
  started: 'the command runs for the first time, or again because the owner started the job again',
  recovered: 'the command runs again because a recovery rule continued the job',
  succeeded: 'the job succeeded',
  failed: 'the job failed',
  stopped: 'the job was stopped or cancelled',
  preempted: 'the cloud preempted the capacity of an attempt',
  unreachable: 'an attempt ended because its workers or the cloud did not answer',
  setup_failed: 'an attempt ended because a setup step failed',
  hung: 'an attempt ended because the program hung',
  waiting: 'an attempt has waited for capacity for `notify.waitingAfterMs`',
  budget_warning: 'the job, or its owner in a grant, has used most of a budget',
  budget_used: 'an attempt ended because the budget of the job, or of its owner in a grant, is used up',
  budget_released:
    'a TPU that a finished job kept was released because the budget of the job, or of its owner in a grant, is used up',
  orphans: 'the controller found a resource with our label that no job claims',
} as const;

export type NotifyEvent = keyof typeof notifyEvents;

export const notifyEventNames = Object.keys(notifyEvents) as readonly NotifyEvent[];

/** A choice of events and recipients. An absent field leaves the choice to the settings. */
export interface NotifySpec {
  /** The events to report. Empty: none. */
  readonly on?: readonly NotifyEvent[];
  /** The recipients: `mail:ADDRESS` or the name of a channel of the settings. */
  readonly to?: readonly string[];
}

/** Names of events that people know from other programs, such as Slurm's `--mail-type`. */
const otherNames: Readonly<Record<string, NotifyEvent>> = {
  begin: 'started',
  start: 'started',
  running: 'started',
  resumed: 'recovered',
  requeue: 'recovered',
  success: 'succeeded',
  end: 'succeeded',
  done: 'succeeded',
  finished: 'succeeded',
  fail: 'failed',
  failure: 'failed',
  error: 'failed',
  cancelled: 'stopped',
  canceled: 'stopped',
  preemption: 'preempted',
  setup: 'setup_failed',
  queued: 'waiting',
  orphan: 'orphans',
  budget: 'budget_warning',
};

/** The event that other programs call by this name; undefined if there is none. */
export function eventOfOtherName(written: string): NotifyEvent | undefined {
  return otherNames[written.trim().toLowerCase()];
}

const mailPrefix = 'mail:';

/** The name of a channel in the settings. */
export const channelNamePattern = /^[a-z][a-z0-9_-]{0,39}$/;

/**
 * One address as in RFC 5321 without quoting: no spaces, control characters, commas or brackets, so that it cannot add
 * a second recipient or a header. Letters of any language are allowed (RFC 6531).
 */
const addressPattern = /^[^\s\p{C}@<>(),;:\\"[\]]{1,64}@[^\s\p{C}@<>(),;:\\"[\]]{1,253}$/u;

/** True for one mail address that is safe in a header and in an SMTP command. */
export function isMailAddress(text: string): boolean {
  return addressPattern.test(text);
}

/** A recipient in its stored form (`mail:alice@example.com`, `slack`), or the problem with it as a phrase. */
export function readRecipient(
  written: string,
): { readonly recipient: string } | { readonly problem: string; readonly suggestion?: string } {
  const address = mailAddressOf(written);
  if (address !== undefined || written.includes('@')) {
    const given = address ?? written;
    if (isMailAddress(given)) return { recipient: `${mailPrefix}${given}` };
    const trimmed = given.trim();
    return {
      problem: 'is not one mail address like mail:alice@example.com',
      ...(isMailAddress(trimmed) && { suggestion: `${mailPrefix}${trimmed}` }),
    };
  }
  if (channelNamePattern.test(written)) return { recipient: written };
  return { problem: 'is neither mail:ADDRESS nor the name of a channel (lower-case letters, digits, - and _)' };
}

/** The address of a `mail:` recipient; undefined for a channel. */
export function mailAddressOf(recipient: string): string | undefined {
  return recipient.startsWith(mailPrefix) ? recipient.slice(mailPrefix.length) : undefined;
}
