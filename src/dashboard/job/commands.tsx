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
import { Menu } from '../parts/menu.tsx';
import { client, errorLines } from '../session.ts';

export interface CommandButton {
  readonly command: PerformedCommand;
  readonly title: string;
  /** The text before the id, if it is not the title: `Remove the files of`. */
  readonly phrase?: string;
}

const usual: readonly CommandButton[] = [
  { command: 'resume', title: 'Resume' },
  { command: 'rerun', title: 'Rerun' },
  { command: 'stop', title: 'Stop' },
  { command: 'cancel', title: 'Cancel' },
];

/** Instead of `Cancel`, for a finished job that keeps its TPU. */
const release: CommandButton = { command: 'cancel', title: 'Release', phrase: 'Release the TPU of' };

const rare: readonly CommandButton[] = [
  { command: 'start', title: 'Start' },
  { command: 'disable-recovery', title: 'Turn recovery off', phrase: 'Turn off the recovery of' },
  { command: 'accept-exit', title: 'Accept the exit', phrase: 'Accept the exit of' },
  { command: 'clean', title: 'Remove files', phrase: 'Remove the files of' },
  { command: 'delete', title: 'Delete' },
];

/** A job of the store or of a cluster. */
export interface CommandedJob {
  readonly id: string;
  /** `000042 (vit)`, escaped. */
  readonly label: string;
  readonly owner: string | null;
  /** The capacity of the job, for a question about its price. */
  readonly machine: string;
  readonly actions: JobActions;
  /** Sentences; none for a command that loses nothing. */
  readonly losses: (command: PerformedCommand) => readonly string[];
  readonly send: (command: PerformedCommand, options: CommandOptions) => Promise<CommandResult>;
}

export function Commands({ view, actions }: { readonly view: JobView; readonly actions: JobActions }) {
  const job: CommandedJob = {
    id: view.id,
    label: `${view.id} (${escapeLine(view.name)})`,
    owner: view.owner,
    machine: formatMachine(view),
    actions,
    losses: (command) => commandLosses(view, command, now.peek()),
    async send(command, options) {
      if (command === 'clean') return client.clean(view.id, options);
      const result = await client.sendCommand(view.id, command, options);
      // The command is stored; without a controller it waits.
      const problems = result.ok
        ? await client.wake().then(
            () => [],
            (error: unknown) => errorLines(error),
          )
        : [];
      return { ...result, message: [result.message, ...problems].join(' ') };
    },
  };
  const first = view.heldCapacity === null ? usual : usual.map((one) => (one.command === 'cancel' ? release : one));
  return <CommandBar job={job} usual={first} rare={rare} />;
}

interface Question {
  readonly button: CommandButton;
  readonly title: string;
  readonly lines: readonly string[];
  readonly action: string;
  readonly options: CommandOptions;
}

interface CommandBarProps {
  readonly job: CommandedJob;
  readonly usual: readonly CommandButton[];
  readonly rare: readonly CommandButton[];
}

export function CommandBar({ job, usual: first, rare: others }: CommandBarProps) {
  const question = useSignal<Question | null>(null);
  const answer = useSignal<readonly string[]>([]);
  const isBusy = useSignal(false);

  const send = async (button: CommandButton, options: CommandOptions): Promise<void> => {
    question.value = null;
    isBusy.value = true;
    answer.value = [`Sent the command “${button.title}” to job ${job.label}.`];
    try {
      const result = await job.send(button.command, options);
      question.value = questionOf(job, button, options, result);
      answer.value = question.value === null ? [result.message, ...refusals(result)] : [];
    } catch (error) {
      answer.value = errorLines(error);
    }
    isBusy.value = false;
  };

  const press = (button: CommandButton): void => {
    const action = job.actions[button.command];
    if (isBusy.value) return;
    if (action.answer === 'deny') {
      answer.value = [`${button.title}: ${action.message}.`];
      return;
    }
    const losses = job.losses(button.command);
    const ofOwner = action.answer === 'confirm' ? job.owner : null;
    const others = action.answer === 'confirm' ? [`${capitalize(action.message)}.`] : [];
    const options = ofOwner === null ? {} : { onBehalfOf: ofOwner };
    if (losses.length + others.length === 0) void send(button, options);
    else
      question.value = {
        button,
        title: `${phraseOf(button)} ${job.label}?`,
        lines: [...others, ...losses],
        action: `${phraseOf(button)} ${job.id}${ofOwner === null ? '' : ` in the name of ${ofOwner}`}`,
        options,
      };
  };

  const show = (button: CommandButton) => {
    const action = job.actions[button.command];
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
        {first.map(show)}
        <Menu title="More" isLeft>
          {others.map(show)}
        </Menu>
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

function phraseOf({ title, phrase = title }: CommandButton): string {
  return phrase;
}

/** The next question of the server; null if its answer is final. */
function questionOf(
  job: CommandedJob,
  button: CommandButton,
  options: CommandOptions,
  { confirmation, message, mayActForOwner, refusedFor }: CommandResult,
): Question | null {
  if (mayActForOwner === true && refusedFor !== undefined && options.onBehalfOf !== refusedFor)
    return {
      button,
      title: `${phraseOf(button)} ${job.label} in the name of ${escapeLine(refusedFor)}?`,
      lines: [escapeLine(message), ...job.losses(button.command)],
      action: `${phraseOf(button)} ${job.id} in the name of ${escapeLine(refusedFor)}`,
      options: { ...options, onBehalfOf: refusedFor },
    };
  if (confirmation === undefined || confirmation.reasons.some(({ token }) => token === null)) return null;
  const { reasons } = confirmation;
  const tokens = reasons.map(({ token }) => token).filter((token) => token !== null);
  return {
    button,
    title: `${phraseOf(button)} ${job.label} anyway?`,
    lines: [
      ...confirmationLines(confirmation),
      ...(reasons.some(({ cost }) => cost !== null) ? [`It runs on ${job.machine}.`] : []),
    ],
    action: `${phraseOf(button)} ${job.id} anyway`,
    options: { ...options, confirmed: [...(options.confirmed ?? []), ...tokens] },
  };
}
