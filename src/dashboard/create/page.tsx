// The page of a new job: its manifest as text and as a form, both of one draft; the plan of the job; and the button that creates it.

import './create.css';
import { useSignal } from '@preact/signals';
import { createTwoFilesPatch } from 'diff';
import { useEffect } from 'preact/hooks';
import type { ConfirmationNeeded, CreatedJob } from '../../app/client.ts';
import { capitalize, escapeForTerminal, escapeLine, pluralize } from '../../app/format.ts';
import { confirmationLines, confirmationRefusal, requireCloudLogin } from '../../app/new-job.ts';
import type { ConfirmationToken } from '../../core/policy/guards.ts';
import { address, changeQuery, goTo, pageHref } from '../location.ts';
import { PageCommand } from '../parts/command.tsx';
import { Confirm, Dialog } from '../parts/dialog.tsx';
import { Failure } from '../parts/messages.tsx';
import { save } from '../parts/save.ts';
import { actorOf, client, errorLines, session } from '../session.ts';
import { manifestFile, useCheck, type Check } from './check.ts';
import { changeDraft, draftOf, isChanged, removeDraft, startDraft, type Draft } from './draft.ts';
import { Editor } from './editor.tsx';
import { Form } from './form.tsx';
import { NewPlan } from './new-plan.tsx';
import { templates } from './templates.ts';

export function CreatePage() {
  const user = actorOf(session.value)?.user ?? null;
  const current = draftOf(user);
  const { check, again } = useCheck(current?.text ?? null);
  const isEmpty = current === null && address.value.query.get('from') === null;
  useEffect(() => {
    if (user !== null && isEmpty) startDraft(user, templateStart(templates[0].name));
  }, [user, isEmpty]);
  const created = useSignal<CreatedJob | null>(null);
  const finish = (job: CreatedJob): void => {
    removeDraft();
    if (job.warnings.length === 0) goTo(pageHref(['jobs', job.id]));
    else created.value = job;
  };
  return (
    <section class="page create">
      <div class="bar">
        <h1>Create</h1>
        <Start user={user} current={current} />
        <PageCommand text={`jobman create ${manifestFile}`} />
      </div>
      {current !== null && <Content current={current} check={check} again={again} onCreated={finish} />}
      {created.value !== null && <Created job={created.value} />}
    </section>
  );
}

interface StartProps {
  readonly user: string | null;
  readonly current: Draft | null;
}

/** Chooses what the draft begins with, and asks before it replaces a draft that a person has changed. */
function Start({ user, current }: StartProps) {
  const from = address.value.query.get('from');
  const failure = useSignal<readonly string[] | null>(null);
  const wanted = useSignal<{ readonly name: string; readonly begin: () => void } | null>(null);
  const replace = (name: string, begin: () => void): void => {
    if (current !== null && isChanged(current)) wanted.value = { name, begin };
    else begin();
  };
  const beginFrom = async (id: string, owner: string): Promise<void> => {
    failure.value = null;
    try {
      const text = await client.manifest(id);
      if (text === null) failure.value = [`Job ${id} has no manifest: its files were removed, or it was imported.`];
      else startDraft(owner, { job: id, name: `job ${id}`, text });
    } catch (error) {
      failure.value = errorLines(error);
    }
  };
  useEffect(() => {
    if (from !== null && user !== null && current?.start.job !== from)
      replace(`job ${from}`, () => void beginFrom(from, user));
  }, [from, user]);
  const choose = (name: string): void => {
    if (user === null) return;
    replace(name, () => {
      changeQuery({ from: null });
      startDraft(user, templateStart(name));
    });
  };
  const open = wanted.value;
  return (
    <>
      <label class="switch">
        Start from
        <select value={current?.start.name ?? ''} onChange={(event) => choose(event.currentTarget.value)}>
          {current?.start.job !== null && current !== null && <option>{current.start.name}</option>}
          {templates.map(({ name }) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      {failure.value !== null && <Failure lines={failure.value} retry={null} />}
      {open !== null && (
        <Confirm
          title={`Start from ${open.name}?`}
          lines={['Your changes to this draft are lost.']}
          action="Replace the draft"
          onConfirm={() => {
            wanted.value = null;
            open.begin();
          }}
          onClose={() => {
            wanted.value = null;
            changeQuery({ from: current?.start.job ?? null });
          }}
        />
      )}
    </>
  );
}

function templateStart(name: string): Draft['start'] {
  const { text } = templates.find((one) => one.name === name) ?? templates[0];
  return { job: null, name, text };
}

interface CreateProps {
  readonly current: Draft;
  readonly check: Check | null;
  readonly onCreated: (job: CreatedJob) => void;
}

/** `check`: of a text that may be older; null before the first. */
function Content({ current, check, again, onCreated }: CreateProps & { readonly again: () => void }) {
  const { text, start } = current;
  const isChecked = check?.text === text;
  const problems = check?.problems ?? [];
  return (
    <>
      <p class="quiet">
        A browser sends the text of the manifest and no files. For a job with files or a working directory of your
        machine, save the text there and use the command.
      </p>
      <div class="sides">
        <Form text={text} problems={problems} onChange={changeDraft} />
        <div class="side">
          <Editor
            text={text}
            problems={isChecked ? problems : null}
            isUnknown={isChecked && check.failure !== null}
            warnings={check?.read?.warnings ?? []}
            onInput={changeDraft}
          />
          {check !== null && check.failure !== null && <Failure lines={check.failure} retry={again} />}
          <CreateButton current={current} check={isChecked ? check : null} onCreated={onCreated} />
          {start.job !== null && isChanged(current) && <Changes current={current} />}
          {check !== null && check.failure === null && <NewPlan check={check} />}
        </div>
      </div>
    </>
  );
}

/** To find more changes would take longer than a person waits for a key. */
const maxChangedLines = 1000;

/** The changes to the manifest of the job that the draft began with. */
function Changes({ current: { text, start } }: { readonly current: Draft }) {
  const options = { context: 2, maxEditLength: maxChangedLines };
  const patch =
    createTwoFilesPatch(start.name, manifestFile, start.text, text, undefined, undefined, options) ??
    `\nMore than ${maxChangedLines} lines differ.`;
  return (
    <section aria-label={`Changes to ${start.name}`}>
      <h2>Changes to {start.name}</h2>
      <pre tabIndex={0} class="patch">
        {patch
          .split('\n')
          .slice(1)
          .map((line, index) => (
            <span key={index} class={line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : ''}>
              {`${escapeForTerminal(line, false)}\n`}
            </span>
          ))}
      </pre>
    </section>
  );
}

/** `check`: of the text as it is now; null before. */
function CreateButton({ current, check, onCreated }: CreateProps) {
  const failure = useSignal<readonly string[] | null>(null);
  const isSending = useSignal(false);
  const question = useSignal<{
    readonly confirmation: ConfirmationNeeded;
    readonly given: readonly ConfirmationToken[];
  } | null>(null);
  const read = check?.read ?? null;
  const obstacle = isSending.value
    ? 'The job is being created.'
    : check === null
      ? 'The manifest is being checked.'
      : check.problems.length > 0
        ? `The manifest has ${pluralize(check.problems.length, 'problem')}.`
        : read === null
          ? 'The manifest could not be checked.'
          : null;

  const send = async (confirmed: readonly ConfirmationToken[]): Promise<void> => {
    if (isSending.peek() || read === null) return;
    isSending.value = true;
    question.value = failure.value = null;
    try {
      await requireCloudLogin(client, read.spec);
      const { spec, manifest } = read;
      const answer = await client.create({ spec, manifest, confirmed, idempotencyKey: current.key });
      if (answer.kind === 'created') {
        await client.wake().catch(() => undefined);
        onCreated(answer);
      } else {
        const refusal = confirmationRefusal(answer.confirmation.reasons, 'Nothing was created');
        if (refusal === null) question.value = { confirmation: answer.confirmation, given: confirmed };
        else failure.value = errorLines(refusal);
      }
    } catch (error) {
      failure.value = errorLines(error);
    }
    isSending.value = false;
  };
  const open = question.value;
  return (
    <div class="bar">
      <button
        class="primary"
        aria-disabled={obstacle !== null}
        title={obstacle ?? undefined}
        onClick={() => void send([])}
      >
        Create the job
      </button>
      <button onClick={() => save(new Blob([current.text], { type: 'text/yaml' }), manifestFile)}>
        Save {manifestFile}
      </button>
      <span class="quiet" role="status">
        {obstacle}
      </span>
      {failure.value !== null && <Failure lines={failure.value} retry={null} />}
      {open !== null && read !== null && (
        <Confirm
          title={`Create ${read.spec.name}${isUsual(open.confirmation) ? '' : ' anyway'}?`}
          lines={confirmationLines(open.confirmation)}
          action={`Create ${read.spec.name}${isUsual(open.confirmation) ? '' : ' anyway'}`}
          onConfirm={() =>
            void send([
              ...open.given,
              ...open.confirmation.reasons.map(({ token }) => token).filter((token) => token !== null),
            ])
          }
          onClose={() => (question.value = null)}
        />
      )}
    </div>
  );
}

/** A terminal only asks about the price. */
function isUsual({ reasons }: ConfirmationNeeded): boolean {
  return reasons.every(({ mayProceed }) => mayProceed);
}

/** The warnings about a job that exists. */
function Created({ job: { id, row, warnings } }: { readonly job: CreatedJob }) {
  const open = (): void => goTo(pageHref(['jobs', id]));
  return (
    <Dialog title={`Created job ${id} (${row.name})`} onClose={open}>
      {warnings.map((warning) => (
        <p key={warning}>{escapeLine(capitalize(warning))}.</p>
      ))}
      <footer>
        <button class="primary" autofocus onClick={open}>
          Open the job
        </button>
      </footer>
    </Dialog>
  );
}
