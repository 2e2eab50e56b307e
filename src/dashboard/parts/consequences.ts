// Consequences of a command for one job, as the question before the command names them.

import { commandLosses } from '../../app/command-losses.ts';
import { capitalize } from '../../app/format.ts';
import { now } from '../clock.ts';
import { client, errorLines } from '../session.ts';

export interface Consequences {
  /** The reason against the command; null if it applies. */
  readonly refusal: string | null;
  /** The owner in whose name the user gives the command; null for an own job. */
  readonly onBehalfOf: string | null;
  readonly lines: readonly string[];
}

/** Never rejects: without an answer, the error is the reason. */
export async function readConsequences(id: string, command: 'stop' | 'cancel' | 'delete'): Promise<Consequences> {
  const none = { refusal: null, onBehalfOf: null, lines: [] };
  try {
    const [view, actions] = await Promise.all([client.show(id), client.actions(id)]);
    const action = actions[command];
    if (action.answer === 'deny') return { ...none, refusal: `${capitalize(action.message)}.` };
    const lines = commandLosses(view, command, now.peek());
    if (action.answer === 'allow') return { ...none, lines };
    return { ...none, onBehalfOf: view.owner, lines: [`${capitalize(action.message)}.`, ...lines] };
  } catch (error) {
    return { ...none, refusal: errorLines(error).join(' ') };
  }
}
