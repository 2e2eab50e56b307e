// The controls of the log viewer, and its keys.

import { useSignal, type Signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { JobView, LogRef } from '../../app/client.ts';
import { reasonPhrases } from '../../app/format.ts';
import { joinLabels } from '../../app/log-text.ts';
import type { WorkerId } from '../../core/model/spec.ts';
import { useKeys } from '../keys.ts';
import { changeQuery } from '../location.ts';
import { labelOf, type PaneState } from './pane-state.ts';

export interface Choices {
  readonly wraps: Signal<boolean>;
  readonly showsTimes: Signal<boolean>;
  readonly folds: Signal<boolean>;
}

interface BarProps {
  /** The choice of the logs. */
  readonly sources: ComponentChildren;
  /** The logs of all workers. */
  readonly all: readonly LogRef[];
  /** The labels of the selected logs; null for all. */
  readonly wanted: readonly string[] | null;
  readonly isApart: boolean;
  readonly mayBeApart: boolean;
  readonly choices: Choices;
  /** The pane to which the controls apply; null without a log. */
  readonly pane: PaneState | null;
  readonly search: Signal<string>;
  readonly evidence: WorkerId | undefined;
  readonly onFullScreen: () => void;
  readonly onDownload: () => void;
}

export function Bar(props: BarProps) {
  const { sources, all, wanted, isApart, mayBeApart, choices, pane, search, evidence, onFullScreen, onDownload } =
    props;
  const field = useRef<HTMLInputElement>(null);
  const copied = useSignal('');
  const find = (direction: 'next' | 'previous'): void => {
    changeQuery({ search: search.value === '' ? null : search.value });
    pane?.find(search.value, direction);
  };
  const copy = async (what: string, text: string): Promise<void> => {
    await navigator.clipboard.writeText(text);
    copied.value = what;
    setTimeout(() => (copied.value = ''), 2000);
  };
  const copyLines = (): void => void copy('lines', pane?.visibleText() ?? '');
  useSearchKey(field);
  useBarKeys({ ...props, field, find, copyLines });
  return (
    <>
      <div class="log-bar">
        {sources}
        {all.length > 1 && <Workers all={all} wanted={wanted} />}
        {mayBeApart && (
          <button aria-pressed={isApart} onClick={() => changeQuery({ apart: isApart ? null : 'yes' })}>
            Columns
          </button>
        )}
        {(
          [
            ['Fold', choices.folds],
            ['Wrap', choices.wraps],
            ['Times', choices.showsTimes],
          ] as const
        ).map(([name, choice]) => (
          <button key={name} aria-pressed={choice.value} onClick={() => (choice.value = !choice.value)}>
            {name}
          </button>
        ))}
        <button
          aria-pressed={pane?.isFollowing.value ?? false}
          onClick={() => (pane?.isFollowing.value === true ? pane.leaveEnd() : pane?.followEnd())}
        >
          Follow
        </button>
        <button onClick={onFullScreen}>Full screen</button>
        <button onClick={copyLines}>{copied.value === 'lines' ? 'Copied' : 'Copy lines'}</button>
        <button onClick={() => void copy('link', location.href)}>
          {copied.value === 'link' ? 'Copied' : 'Copy link'}
        </button>
        <button onClick={onDownload}>Download</button>
      </div>
      <div class="log-bar">
        <form
          role="search"
          onSubmit={(event) => {
            event.preventDefault();
            find('next');
          }}
        >
          <input
            ref={field}
            type="search"
            aria-label="Search in the whole log; /.../ is a regular expression"
            placeholder="Search, or /regex/"
            value={search.value}
            onInput={(event) => (search.value = event.currentTarget.value)}
          />
          <button type="button" aria-label="Previous match" onClick={() => find('previous')}>
            ↑
          </button>
          <button aria-label="Next match">↓</button>
        </form>
        <span>
          <button onClick={() => pane?.findFirstError(evidence)}>First error</button>{' '}
          <button aria-label="Previous error" onClick={() => pane?.findError('previous')}>
            Error ↑
          </button>{' '}
          <button aria-label="Next error" onClick={() => pane?.findError('next')}>
            Error ↓
          </button>
        </span>
        {pane !== null && <PositionSlider pane={pane} />}
        {pane !== null && <TaskState pane={pane} />}
      </div>
    </>
  );
}

/** The choice of an attempt or a setup step. */
export function Sources({ view }: { readonly view: JobView }) {
  const steps = [...view.spec.steps.map(({ name }) => name), 'job', 'tpu'];
  const { attempts } = view;
  const query = new URLSearchParams(location.search);
  const change = (value: string): void => {
    const [kind = '', name = ''] = value.split(/:(.*)/s);
    changeQuery({
      attempt: kind === 'attempt' && name !== '' ? name : null,
      step: kind === 'step' ? name : null,
      workers: null,
      position: null,
    });
  };
  const step = query.get('step');
  const attempt = query.get('attempt');
  const value = step !== null ? `step:${step}` : attempt !== null ? `attempt:${attempt}` : 'attempt:';
  return (
    <select aria-label="Attempt or step" value={value} onChange={(event) => change(event.currentTarget.value)}>
      <option value="attempt:">newest attempt</option>
      {attempts.map((one) => (
        <option key={one.attempt} value={`attempt:${one.attempt}`}>
          attempt {one.attempt}
          {one.reason === null ? '' : `, ${reasonPhrases[one.reason]}`}
        </option>
      ))}
      {steps.map((name) => (
        <option key={name} value={`step:${name}`}>
          {name === 'job' ? 'history of the job' : name === 'tpu' ? 'requests to the cloud' : `setup step ${name}`}
        </option>
      ))}
    </select>
  );
}

const maxToggles = 16;

/** A toggle for each worker, or a field if there are many. */
function Workers({ all, wanted }: Pick<BarProps, 'all' | 'wanted'>) {
  const labels = all.map((ref) => String(labelOf(ref)));
  const select = (next: readonly string[]): void =>
    changeQuery({
      workers: next.length === 0 || next.length === labels.length ? null : next.join(','),
      position: null,
    });
  if (labels.length > maxToggles) return <WorkerField all={all} wanted={wanted} onSelect={select} />;
  return (
    <div class="toggles" role="group" aria-label="Workers">
      <button aria-pressed={wanted === null} onClick={() => select([])}>
        All
      </button>
      {labels.map((label) => (
        <button
          key={label}
          aria-label={`Worker ${label}`}
          aria-pressed={wanted?.includes(label) ?? false}
          onClick={() =>
            select(
              wanted === null
                ? [label]
                : wanted.includes(label)
                  ? wanted.filter((one) => one !== label)
                  : [...wanted, label],
            )
          }
        >
          {label}
        </button>
      ))}
    </div>
  );
}

function WorkerField({
  all,
  wanted,
  onSelect,
}: Pick<BarProps, 'all' | 'wanted'> & { readonly onSelect: (labels: readonly string[]) => void }) {
  const labels = all.map(labelOf);
  const shown = labels.filter((label) => wanted?.includes(String(label)) ?? false);
  const select = (event: { readonly currentTarget: HTMLInputElement }): void =>
    onSelect(parseLabels(event.currentTarget.value, labels.map(String)));
  return (
    <label>
      Workers
      <input
        size={8}
        placeholder={joinLabels(labels)}
        defaultValue={joinLabels(shown)}
        onBlur={select}
        onKeyDown={(event) => {
          if (event.key === 'Enter') select(event);
        }}
      />
    </label>
  );
}

/** The known labels that a text such as `0-3,7` names. */
function parseLabels(text: string, known: readonly string[]): readonly string[] {
  const ranges = text.split(/[\s,]+/).map((part) => /^(\d+)-(\d+)$/.exec(part) ?? [part, part, part]);
  return known.filter((label) =>
    ranges.some(([, from, to]) => label === from || (Number(label) >= Number(from) && Number(label) <= Number(to))),
  );
}

function PositionSlider({ pane }: { readonly pane: PaneState }) {
  void pane.version.value;
  const row = pane.window.rows()[pane.topRow];
  const share = pane.isFollowing.value || row === undefined ? 1 : pane.window.shareOf(row);
  return (
    <label>
      Position
      <input
        type="range"
        min={0}
        max={1000}
        value={Math.round(share * 1000)}
        aria-valuetext={`${Math.round(share * 100)}% of the log`}
        onInput={(event) => pane.openShare(Number(event.currentTarget.value) / 1000)}
      />
    </label>
  );
}

function TaskState({ pane }: { readonly pane: PaneState }) {
  const task = pane.task.value;
  return (
    <span role="status" class="quiet">
      {task === null ? (
        pane.answer.value
      ) : (
        <>
          {task.label}, {Math.floor(task.share * 100)}%{' '}
          <button class="plain" onClick={() => pane.stopTask()}>
            stop
          </button>
        </>
      )}
    </span>
  );
}

interface BarKeys extends BarProps {
  readonly field: { readonly current: HTMLInputElement | null };
  readonly find: (direction: 'next' | 'previous') => void;
  readonly copyLines: () => void;
}

function useBarKeys({ all, choices, pane, search, evidence, field, find, copyLines, onFullScreen }: BarKeys): void {
  const toggle = (choice: Signal<boolean>) => (): void => {
    choice.value = !choice.peek();
  };
  const labels = all.map((ref) => String(labelOf(ref)));
  useKeys(
    [
      { key: '/', summary: 'Search', act: () => field.current?.focus() },
      { key: 'n', summary: 'Next match', act: () => find('next') },
      { key: 'N', summary: 'Previous match', act: () => find('previous') },
      { key: 'e', summary: 'Next error', act: () => pane?.findError('next') },
      { key: 'E', summary: 'Previous error', act: () => pane?.findError('previous') },
      { key: 'x', summary: 'First error of all workers', act: () => pane?.findFirstError(evidence) },
      { key: 'f', summary: 'Follow the end', act: () => pane?.followEnd() },
      { key: 'Home', summary: 'Beginning of the log', act: () => pane?.openStart() },
      { key: 'End', summary: 'End of the log', act: () => pane?.followEnd() },
      { key: 'z', summary: 'Wrap lines', act: toggle(choices.wraps) },
      { key: 't', summary: 'Show the times of lines', act: toggle(choices.showsTimes) },
      { key: 'o', summary: 'Fold equal lines', act: toggle(choices.folds) },
      { key: 'y', summary: 'Copy the lines in view', act: copyLines },
      { key: 'F', summary: 'Full screen', act: onFullScreen },
      { key: 'Escape', summary: 'Stop the search', act: () => pane?.stopTask() },
      { key: '0', summary: 'All workers', act: () => changeQuery({ workers: null }) },
      ...labels.slice(0, 9).map((label, index) => ({
        key: String(index + 1),
        summary: `Only worker ${label}`,
        act: () => changeQuery({ workers: label }),
      })),
    ],
    [pane, search.value, evidence, labels.join()],
  );
}

/** Ctrl-F goes to the field, because the browser finds only drawn lines. A second Ctrl-F opens the browser's own search. */
function useSearchKey(field: { readonly current: HTMLInputElement | null }): void {
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (event.key !== 'f' || !(event.ctrlKey || event.metaKey) || document.activeElement === field.current) return;
      event.preventDefault();
      field.current?.focus();
      field.current?.select();
    };
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, []);
}
