// The commands of a job. The server decides which ones apply; the button of any other command says why. The page asks before a
// command that ends or gives up something, and for every reason that the server wants confirmed.

import { useSignal } from '@preact/signals';
import type { CommandOptions, CommandResult, JobView } from '../../app/client.ts';
import { commandLosses } from '../../app/command-losses.ts';
import type { PerformedCommand } from '../../app/command-steps.ts';
import { capitalize, escapeLine, formatMachine } from '../../app/format.ts';
import { confirmationLines } from '../../app/new-job.ts';
import type { JobActions } from '../../core/policy/permissions.ts';
import { now } from '../clock.ts';
import { Confirm } from '../parts/dialog.tsx';
import { client, errorLines } from '../session.ts';

interface Button {
  readonly command: PerformedCommand;
  readonly title: string;
  /** The text before the id, if it is not the title: `Remove the files of`. */
  readonly phrase?: string;
}

const usual: readonly Button[] = [
  { command: 'resume', title: 'Resume' },
  { command: 'rerun', title: 'Rerun' },
  { command: 'stop', title: 'Stop' },
  { command: 'cancel', title: 'Cancel' },
];

const rare: readonly Button[] = [
  { command: 'start', title: 'Start' },
  { command: 'disable-recovery', title: 'Turn recovery off', phrase: 'Turn off the recovery of' },
  { command: 'accept-exit', title: 'Accept the exit', phrase: 'Accept the exit of' },
  { command: 'clean', title: 'Remove files', phrase: 'Remove the files of' },
  { command: 'delete', title: 'Delete' },
];

interface Question {
  readonly button: Button;
  readonly title: string;
  readonly lines: readonly string[];
  readonly action: string;
  readonly options: CommandOptions;
}

export function Commands({ view, actions }: { readonly view: JobView; readonly actions: JobActions }) {
  const question = useSignal<Question | null>(null);
  const answer = useSignal<readonly string[]>([]);
  const isBusy = useSignal(false);
  const job = formatJob(view);

  const send = async (button: Button, options: CommandOptions): Promise<void> => {
    question.value = null;
    isBusy.value = true;
    answer.value = [`${button.title} was sent for job ${job}.`];
    try {
      const result = await (button.command === 'clean'
        ? client.clean(view.id, options)
        : client.sendCommand(view.id, button.command, options));
      question.value = questionOf(view, button, options, result);
      answer.value = question.value === null ? [result.message, ...refusals(result)] : [];
      if (result.ok && button.command !== 'clean')
        await client.wake().catch((error: unknown) => (answer.value = [...answer.peek(), ...errorLines(error)]));
    } catch (error) {
      answer.value = errorLines(error);
    }
    isBusy.value = false;
  };

  const press = (button: Button): void => {
    const action = actions[button.command];
    if (isBusy.value) return;
    if (action.answer === 'deny') {
      answer.value = [`${button.title}: ${action.message}.`];
      return;
    }
    const losses = commandLosses(view, button.command, now.peek());
    const others = action.answer === 'confirm' ? [`${capitalize(action.message)}.`] : [];
    const options = action.answer === 'confirm' ? { onBehalfOf: view.owner } : {};
    if (losses.length + others.length === 0) void send(button, options);
    else
      question.value = {
        button,
        title: `${phraseOf(button)} ${job}?`,
        lines: [...others, ...losses],
        action: `${phraseOf(button)} ${view.id}${others.length > 0 ? ` in the name of ${view.owner}` : ''}`,
        options,
      };
  };

  const show = (button: Button) => {
    const action = actions[button.command];
    const reason = action.answer === 'allow' ? undefined : action.message;
    return (
      <button
        key={button.command}
        aria-disabled={action.answer === 'deny' || isBusy.value}
        title={reason}
        onClick={() => press(button)}
      >
        {button.title}
      </button>
    );
  };
  const open = question.value;
  return (
    <section aria-label="Commands" class="commands">
      <div class="bar">
        {usual.map(show)}
        <details class="menu menu-left">
          <summary>More</summary>
          <div class="menu-items">{rare.map(show)}</div>
        </details>
        <div role="status" class="answer">
          {answer.value.map((line) => (
            <p key={line}>{escapeLine(line)}</p>
          ))}
        </div>
      </div>
      {open !== null && (
        <Confirm
          title={open.title}
          lines={open.lines}
          action={open.action}
          onConfirm={() => void send(open.button, open.options)}
          onClose={() => (question.value = null)}
        />
      )}
    </section>
  );
}

/** The reasons that a user cannot confirm. */
function refusals({ message, confirmation }: CommandResult): readonly string[] {
  const reasons = (confirmation?.reasons ?? []).filter(({ token }) => token === null);
  const lines = reasons.flatMap((one) => [`${capitalize(one.message)}.`, one.remedy]);
  return [...new Set(lines)].filter((line) => !message.includes(line));
}

function formatJob({ id, name }: JobView): string {
  return `${id} (${escapeLine(name)})`;
}

function phraseOf({ title, phrase = title }: Button): string {
  return phrase;
}

/** The next question of the server; null if its answer is final. */
function questionOf(
  view: JobView,
  button: Button,
  options: CommandOptions,
  { confirmation, message, mayActForOwner, refusedFor }: CommandResult,
): Question | null {
  const job = formatJob(view);
  if (mayActForOwner === true && refusedFor !== undefined && options.onBehalfOf !== refusedFor)
    return {
      button,
      title: `${phraseOf(button)} ${job} in the name of ${escapeLine(refusedFor)}?`,
      lines: [escapeLine(message), ...commandLosses(view, button.command, now.peek())],
      action: `${phraseOf(button)} ${view.id} in the name of ${escapeLine(refusedFor)}`,
      options: { ...options, onBehalfOf: refusedFor },
    };
  if (confirmation === undefined || confirmation.reasons.some(({ token }) => token === null)) return null;
  const { reasons } = confirmation;
  const tokens = reasons.map(({ token }) => token).filter((token) => token !== null);
  return {
    button,
    title: `${phraseOf(button)} ${job} anyway?`,
    lines: [
      ...confirmationLines(confirmation),
      ...(reasons.some(({ cost }) => cost !== null) ? [`It runs on ${formatMachine(view)}.`] : []),
    ],
    action: `${phraseOf(button)} ${view.id} anyway`,
    options: { ...options, confirmed: [...(options.confirmed ?? []), ...tokens] },
  };
}
