// Command steps: a command for a job of any source, and the steps of its answer.

import type { JobCommand } from '../core/policy/permissions.ts';
import type { CommandOptions, CommandResult } from './client.ts';

export interface PerformOptions extends CommandOptions {
  /** Ends the wait for the command. The result says how far it came. */
  readonly signal?: AbortSignal;
}

/** `setup` runs one step and has its own operation. */
export type PerformedCommand = Exclude<JobCommand, 'setup'>;

/** `progress`: a command that takes long says what it waits for. One step is the result. */
export type CommandStep =
  | { readonly kind: 'progress'; readonly message: string }
  | ({ readonly kind: 'result' } & CommandResult);
