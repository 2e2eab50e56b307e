// Consequences of a command for one job, as the question before the command names them.

import { commandLosses } from '../../app/command-losses.ts';
import { capitalize } from '../../app/format.ts';
import type { ActionAnswer } from '../../core/policy/permissions.ts';
import { now } from '../clock.ts';
import { client, errorLines } from '../session.ts';

export interface Consequences {
  /** The reason against the command; null if it applies. */
  readonly refusal: string | null;
  /** The owner in whose name the user gives the command; null for a job of the user. */
  readonly onBehalfOf: string | null;
  readonly lines: readonly string[];
}

interface CommandRead {
  readonly action: ActionAnswer;
  readonly owner: string | null;
  /** The sentences about what is lost. */
  readonly lines: readonly string[];
}

/** Never rejects: if the server does not answer, the error is the refusal. */
export function readConsequences(id: string, command: 'stop' | 'cancel' | 'delete'): Promise<Consequences> {
  return describeConsequences(async () => {
    const [view, actions] = await Promise.all([client.show(id), client.actions(id)]);
    return { action: actions[command], owner: view.owner, lines: commandLosses(view, command, now.peek()) };
  });
}

/** The same for a job of another source. */
export async function describeConsequences(read: () => Promise<CommandRead>): Promise<Consequences> {
  const none = { refusal: null, onBehalfOf: null, lines: [] };
  try {
    const { action, owner, lines } = await read();
    if (action.answer === 'deny') return { ...none, refusal: `${capitalize(action.message)}.` };
    if (action.answer === 'allow') return { ...none, lines };
    return { ...none, onBehalfOf: owner, lines: [`${capitalize(action.message)}.`, ...lines] };
  } catch (error) {
    return { ...none, refusal: errorLines(error).join(' ') };
  }
}
