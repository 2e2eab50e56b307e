// The logs of a job: of all workers merged, of some of them, or of each in a column.

import './logs.css';
import { useComputed, useSignal, type Signal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { JobView, LogRef } from '../../app/client.ts';
import { escapeLine } from '../../app/format.ts';
import { quote } from '../../catalogue/shell.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import { formatWorker } from '../../core/model/spec.ts';
import type { Duration } from '../../core/model/time.ts';
import { readChoice, storeChoice } from '../choices.ts';
import { followJob } from '../job/job-state.ts';
import { onChange } from '../live.ts';
import { address, changeQuery, firstErrorPosition, pageHref } from '../location.ts';
import { PageCommand } from '../parts/command.tsx';
import { Empty, Failure } from '../parts/messages.tsx';
import { PhaseLabel } from '../parts/phase.tsx';
import { Bar, Sources, type Choices } from './bar.tsx';
import { Downloads, WholeLine, type ShownLine } from './dialogs.tsx';
import { hitsOf } from './hits.ts';
import { followLogList, type LogList } from './log-list.ts';
import { createLogReader, createLogSearch } from './read.ts';
import { createPane, labelOf, type PaneState } from './pane-state.ts';
import { Pane } from './pane.tsx';
import type { Position } from './window.ts';

export function LogsPage() {
  const id = address.value.path[1] ?? '';
  const view = useSignal<JobView | null>(null);
  const failure = useSignal<readonly string[] | null>(null);
  useEffect(() => {
    view.value = null;
    return followJob(id, (state) => {
      view.value = state.view;
      failure.value = state.failure;
    });
  }, [id]);
  if (view.value === null)
    return failure.value === null ? (
      <p class="quiet">Reading job {id}…</p>
    ) : (
      <Failure lines={failure.value} retry={null} />
    );
  return (
    <article class="page page-table">
      <div class="bar">
        <h1>
          Logs of{' '}
          <a href={pageHref(['jobs', view.value.id])}>
            {view.value.id} {escapeLine(view.value.name)}
          </a>
        </h1>
        <PhaseLabel row={view.value} />
        <PageCommand text={commandOf(view.value.id)} />
      </div>
      {failure.value !== null && <Failure lines={failure.value} retry={null} />}
      <LogView view={view.value} />
    </article>
  );
}

/** The command that prints the same. The address may come from another person. */
function commandOf(job: string): string {
  const { query } = address.value;
  const flag = (name: string, value: string | null): string => (value === null ? '' : ` ${name} ${quote(value)}`);
  const [worker = null, ...others] = workersOf(query.get('workers')) ?? [];
  return `jobman logs ${job}${flag('--attempt', query.get('attempt'))}${flag('--step', query.get('step'))}${flag(
    '--worker',
    others.length === 0 ? worker : null,
  )} --follow`;
}

const maxColumns = 4;

/** The log viewer of a job. Its state is in the parameters of the address: attempt, step, workers, apart, search, position. */
export function LogView({ view }: { readonly view: JobView }) {
  const { query } = address.value;
  const attempt = query.get('attempt');
  const step = query.get('step');
  const current = useRef(view);
  current.current = view;
  const list = useSignal<LogList>({ logs: null, failure: null });
  /** The newest position. The address gets it later. */
  const position = useRef(query.get('position'));
  useEffect(() => {
    list.value = { logs: null, failure: null };
    position.current = address.peek().query.get('position');
    return followLogList(
      view.id,
      step !== null ? { step } : attempt !== null ? { attempt: Number(attempt) } : {},
      () => step !== null && !isFinishedPhase(current.current.phase),
      (next) => (list.value = next),
    );
  }, [view.id, attempt, step]);
  const choices: Choices = {
    wraps: useChoice('log-wrap', false),
    showsTimes: useChoice('log-times', true),
    folds: useChoice('log-fold', true),
  };
  const wanted = workersOf(query.get('workers'));
  const all = list.value.logs ?? [];
  const logs = wanted === null ? all : all.filter((log) => wanted.includes(String(labelOf(log))));
  const isApart = query.get('apart') !== null && logs.length > 1 && logs.length <= maxColumns;
  const panes = usePanes(view.id, logs, { isApart, folds: choices.folds.value, position: position.current });
  const active = useSignal(0);
  const pane = panes[Math.min(active.value, panes.length - 1)] ?? null;
  const search = useSignal(query.get('search') ?? '');
  const hits = useComputed(() => (search.value === '' ? null : hitsOf(search.value)));
  const shownLine = useSignal<ShownLine | null>(null);
  const downloads = useSignal(false);
  const section = useRef<HTMLElement>(null);
  const evidence = evidenceOf(view, logs);

  useEffect(
    () =>
      onChange((change) => {
        for (const one of panes) one.take(change);
      }),
    [panes],
  );
  useEffect(() => {
    for (const one of panes) one.update(logs);
  }, [panes, list.value]);
  // Only once: the position of the error replaces it.
  const findsFirstError = useRef(position.current === firstErrorPosition);
  useEffect(() => {
    if (pane === null || !findsFirstError.current) return;
    findsFirstError.current = false;
    pane.findFirstError(evidence);
  }, [pane]);

  return (
    <section class="page log-view" ref={section} aria-label="Logs">
      <Bar
        sources={<Sources view={view} />}
        all={all}
        wanted={wanted}
        isApart={isApart}
        mayBeApart={logs.length > 1 && logs.length <= maxColumns}
        choices={choices}
        pane={pane}
        search={search}
        evidence={evidence}
        onFullScreen={() => void toggleFullScreen(section.current)}
        onDownload={() => (downloads.value = true)}
      />
      {list.value.failure !== null && <Failure lines={list.value.failure} retry={null} />}
      {list.value.logs !== null && logs.length === 0 && list.value.failure === null ? (
        <Empty>{all.length === 0 ? nothingText(view) : 'The selected workers have no log.'}</Empty>
      ) : (
        <div class={`log-panes ${isApart ? 'log-apart' : ''}`}>
          {panes.map((one, index) => (
            <div
              class="log-column"
              key={one.refs.map(({ id }) => id).join()}
              onFocusIn={() => (active.value = index)}
              onPointerDown={() => (active.value = index)}
            >
              {isApart && (
                <h2>{one.refs.map((ref) => (ref.worker === null ? ref.id : formatWorker(ref.worker))).join()}</h2>
              )}
              <Pane
                state={one}
                label={isApart ? `Log of ${one.refs.map(({ id }) => id).join()}` : 'Log lines'}
                wraps={choices.wraps.value}
                showsTimes={choices.showsTimes.value}
                hits={hits.value}
                onShowAll={(log, line) => {
                  const ref = one.refs[log];
                  if (ref !== undefined) shownLine.value = { read: createLogReader(view.id)(ref), line };
                }}
                onPosition={(shown, isSelected) => {
                  if (index > 0) return;
                  const text = formatPosition(one, shown);
                  if (text === position.current) return;
                  position.current = text;
                  keepPosition(text, isSelected ? 0 : scrollPause);
                }}
              />
            </div>
          ))}
        </div>
      )}
      {shownLine.value !== null && <WholeLine shown={shownLine.value} onClose={() => (shownLine.value = null)} />}
      {downloads.value && <Downloads logs={logs} onClose={() => (downloads.value = false)} />}
    </section>
  );
}

/** Panes of these logs, which are created again if other logs are shown. */
function usePanes(
  job: string,
  logs: readonly LogRef[],
  {
    isApart,
    folds,
    position,
  }: { readonly isApart: boolean; readonly folds: boolean; readonly position: string | null },
): readonly PaneState[] {
  const key = [job, isApart, folds, ...logs.map(({ id }) => id)].join(' ');
  const panes = useMemo(() => {
    const readOf = createLogReader(job);
    const groups = logs.length === 0 ? [] : isApart ? logs.map((log) => [log]) : [logs];
    return groups.map((refs) =>
      createPane(refs, { readOf, findInLogs: createLogSearch(job, refs) }, folds, startOf(refs, position)),
    );
  }, [key]);
  useEffect(
    () => () => {
      clearTimeout(keeping);
      for (const pane of panes) pane.close();
    },
    [panes],
  );
  return panes;
}

/** `2:1048576`: worker and offset. */
function startOf(refs: readonly LogRef[], text: string | null): Position | null {
  const [, label, offset] = /^(.+):(\d{1,15})$/.exec(text ?? '') ?? [];
  const log = refs.findIndex((ref) => String(labelOf(ref)) === label);
  return log < 0 ? null : { log, offset: Math.min(Number(offset), Math.max(0, (refs[log]?.size ?? 0) - 1)) };
}

function formatPosition({ refs }: PaneState, position: Position | null): string | null {
  const ref = position === null ? undefined : refs[position.log];
  return ref === undefined || position === null ? null : `${labelOf(ref)}:${position.offset}`;
}

let keeping: ReturnType<typeof setTimeout> | undefined;

/** The address follows the view once it rests, because browsers limit how often it may change. */
const scrollPause: Duration = 400;

function keepPosition(text: string | null, pause: Duration): void {
  clearTimeout(keeping);
  const { path } = address.peek();
  keeping = setTimeout(() => {
    const { path: current, query } = address.peek();
    if (current.join('/') === path.join('/') && query.get('position') !== text) changeQuery({ position: text });
  }, pause);
}

function workersOf(text: string | null): readonly string[] | null {
  return text === null || text === '' ? null : text.split(',');
}

/** A choice that the browser stores. */
export function useChoice(name: string, byDefault: boolean): Signal<boolean> {
  const choice = useSignal((readChoice(name) ?? (byDefault ? 'on' : 'off')) === 'on');
  useEffect(() => storeChoice(name, choice.value ? 'on' : 'off'), [choice.value]);
  return choice;
}

/** The worker that caused the end of the attempt with these logs. */
function evidenceOf({ attempts }: JobView, logs: readonly LogRef[]) {
  return attempts.find(({ attempt }) => attempt === logs[0]?.attempt)?.evidence?.worker;
}

function nothingText({ why }: JobView): string {
  return `Nothing was printed yet. ${escapeLine(why.message)}`;
}

export async function toggleFullScreen(element: HTMLElement | null): Promise<void> {
  if (document.fullscreenElement !== null) await document.exitFullscreen();
  else await element?.requestFullscreen();
}
