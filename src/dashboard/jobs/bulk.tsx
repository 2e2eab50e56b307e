// Commands for the selected jobs: a question that names each job and its losses, then the result for each job.

import { signal, useSignal } from '@preact/signals';
import type { CommandOptions, CommandResult, JobRow } from '../../app/client.ts';
import { mapConcurrent } from '../../app/concurrency.ts';
import { capitalize, escapeLine, pluralize } from '../../app/format.ts';
import { Dialog } from '../parts/dialog.tsx';
import { describeConsequences, readConsequences, type Consequences } from '../parts/consequences.ts';
import { client, errorLines } from '../session.ts';
import { keyOfJob } from './job-key.ts';

type BulkCommand = 'stop' | 'cancel' | 'delete';

const commands: readonly BulkCommand[] = ['stop', 'cancel', 'delete'];

/** One job of the question. */
interface Subject extends Consequences {
  readonly row: JobRow;
}

interface Answer {
  readonly id: string;
  readonly ok: boolean;
  readonly message: string;
}

interface Answers {
  readonly command: BulkCommand;
  readonly total: number;
  readonly given: readonly Answer[];
}

/** Kept when the selection is cleared. */
const answers = signal<Answers | null>(null);
const maxConcurrent = 4;

interface BulkProps {
  readonly selected: readonly JobRow[];
  readonly onClear: () => void;
}

export function Bulk({ selected, onClear }: BulkProps) {
  const asked = useSignal<{ readonly command: BulkCommand; readonly subjects: readonly Subject[] | null } | null>(null);
  const ask = async (command: BulkCommand): Promise<void> => {
    const own = { command, subjects: null };
    asked.value = own;
    const subjects = await mapConcurrent(selected, maxConcurrent, async (row) => ({
      row,
      ...(await consequencesOf(row, command)),
    }));
    // An earlier question of the same command was about other jobs.
    if (asked.peek() === own) asked.value = { command, subjects };
  };
  const perform = (command: BulkCommand, subjects: readonly Subject[]): void => {
    asked.value = null;
    onClear();
    void performAll(command, subjects);
  };
  const open = asked.value;
  return (
    <>
      {selected.length > 0 && (
        <div class="bulk" role="group" aria-label="Selected jobs">
          <strong>{pluralize(selected.length, 'job')} selected</strong>
          {commands.map((command) => (
            <button key={command} onClick={() => void ask(command)}>
              {capitalize(command)}
            </button>
          ))}
          <button class="plain" onClick={onClear}>
            Clear the selection
          </button>
        </div>
      )}
      <AnswerList />
      {open !== null && (
        <Question
          command={open.command}
          subjects={open.subjects}
          onConfirm={(subjects) => perform(open.command, subjects)}
          onClose={() => (asked.value = null)}
        />
      )}
    </>
  );
}

function consequencesOf(row: JobRow, command: BulkCommand): Promise<Consequences> {
  if (row.backend !== 'kubernetes') return readConsequences(row.id, command);
  return describeConsequences(async () => (await import('../clusters/source.ts')).readClusterCommand(row, command));
}

async function send(row: JobRow, command: BulkCommand, options: CommandOptions): Promise<CommandResult> {
  if (row.backend !== 'kubernetes') return client.sendCommand(row.id, command, options);
  const { nameOf, commandClusterJob } = await import('../clusters/source.ts');
  return commandClusterJob(nameOf(row), command, options);
}

async function performAll(command: BulkCommand, subjects: readonly Subject[]): Promise<void> {
  answers.value = { command, total: subjects.length, given: [] };
  await mapConcurrent(subjects, maxConcurrent, async ({ row, onBehalfOf }) => {
    const id = keyOfJob(row);
    const given = await send(row, command, onBehalfOf === null ? {} : { onBehalfOf })
      .then(({ ok, message }) => ({ id, ok, message }))
      .catch((error: unknown) => ({ id, ok: false, message: errorLines(error).join(' ') }));
    const { given: before = [] } = answers.peek() ?? {};
    answers.value = { command, total: subjects.length, given: [...before, given] };
  });
  await client.wake().catch(() => undefined);
}

interface QuestionProps {
  readonly command: BulkCommand;
  /** Null while they are read. */
  readonly subjects: readonly Subject[] | null;
  readonly onConfirm: (subjects: readonly Subject[]) => void;
  readonly onClose: () => void;
}

/** The focus begins on the button that changes nothing. */
function Question({ command, subjects, onConfirm, onClose }: QuestionProps) {
  const possible = subjects?.filter(({ refusal }) => refusal === null) ?? [];
  const title =
    subjects === null ? capitalize(command) : `${capitalize(command)} ${pluralize(possible.length, 'job')}?`;
  return (
    <Dialog title={title} onClose={onClose}>
      {subjects === null ? (
        <p role="status">Reading what each job would lose…</p>
      ) : (
        <ul class="subjects" tabIndex={0} aria-label="Jobs">
          {subjects.map(({ row, refusal, lines }) => (
            <li key={keyOfJob(row)}>
              <strong>
                {row.backend === 'kubernetes' ? row.zone : row.id} {escapeLine(row.name)}
              </strong>{' '}
              {row.phase}
              {(refusal === null ? lines : [`Not possible: ${refusal}`]).map((line) => (
                <p key={line} class={refusal === null ? '' : 'quiet'}>
                  {escapeLine(line)}
                </p>
              ))}
            </li>
          ))}
        </ul>
      )}
      <footer>
        <button autofocus onClick={onClose}>
          Change nothing
        </button>
        {possible.length > 0 && (
          <button class="danger" onClick={() => onConfirm(possible)}>
            {capitalize(command)} {pluralize(possible.length, 'job')}
          </button>
        )}
      </footer>
    </Dialog>
  );
}

function AnswerList() {
  const current = answers.value;
  return (
    <div role="status">
      {current !== null && (
        <div class="answers">
          <div class="bar">
            <strong>
              {capitalize(current.command)}: {current.given.length} of {pluralize(current.total, 'job')} processed
            </strong>
            <button class="plain" onClick={() => (answers.value = null)}>
              Close
            </button>
          </div>
          <ul>
            {current.given.map(({ id, ok, message }) => (
              <li key={id} class={ok ? '' : 'bad'}>
                {escapeLine(message)}
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}
