// The log of a container of a cluster job, followed.

import '../logs/logs.css';
import { useComputed, useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { clusterRoutes } from '../../api/routes.ts';
import type { ClusterJobView } from '../../app/cluster/job-view.ts';
import { mainContainer } from '../../app/cluster/observe-job.ts';
import { escapeLine } from '../../app/format.ts';
import { second, type Duration } from '../../core/model/time.ts';
import { address, changeQuery } from '../location.ts';
import { Bar } from '../logs/bar.tsx';
import { WholeLine, type ShownLine } from '../logs/dialogs.tsx';
import { save } from '../parts/save.ts';
import { hitsOf } from '../logs/hits.ts';
import { toggleFullScreen, useChoice } from '../logs/page.tsx';
import { createPane } from '../logs/pane-state.ts';
import { Pane } from '../logs/pane.tsx';
import { Failure } from '../parts/messages.tsx';
import { client, errorLines } from '../session.ts';
import { openPodOutput, tailLines } from './pod-output.ts';

/** The output of a container. */
interface ContainerLog {
  /** Of the choice: `pod/container`, and `pod/container/previous` for the output before the last restart. */
  readonly id: string;
  readonly pod: string;
  readonly container: string;
  readonly isPrevious: boolean;
}

/** Newest pod first. A container that waits has no output yet. */
function containerLogs({ pods, archivedAt }: ClusterJobView): readonly ContainerLog[] {
  return pods.toReversed().flatMap((pod) => {
    const main = mainContainer(pod.containers);
    const ordered = pod.containers.toSorted((one, other) => Number(other === main) - Number(one === main));
    return ordered.flatMap(({ name, state, restarts }) => {
      const log = { id: `${pod.name}/${name}`, pod: pod.name, container: name, isPrevious: false };
      const hasPrevious = restarts > 0 && archivedAt === null;
      return [
        ...(state === 'waiting' ? [] : [log]),
        ...(hasPrevious ? [{ ...log, id: `${log.id}/previous`, isPrevious: true }] : []),
      ];
    });
  });
}

export function PodLogs({ view }: { readonly view: ClusterJobView }) {
  const logs = containerLogs(view);
  const wanted = address.value.query.get('log');
  const log = logs.find(({ id }) => id === wanted) ?? logs[0];
  return (
    <section aria-label="Logs">
      <h2>Logs</h2>
      {log === undefined ? (
        <p class="quiet">Nothing was printed yet. {escapeLine(view.why.message)}</p>
      ) : (
        <Output view={view} log={log} logs={logs} />
      )}
    </section>
  );
}

/** After a failure. */
const retryTime: Duration = 5 * second;

interface OutputProps {
  readonly view: ClusterJobView;
  readonly log: ContainerLog;
  readonly logs: readonly ContainerLog[];
}

function Output({ view, log, logs }: OutputProps) {
  const { output, pane, failure } = usePane(view, log);
  const choices = {
    wraps: useChoice('log-wrap', false),
    showsTimes: useChoice('log-times', true),
    folds: useChoice('log-fold', true),
  };
  const search = useSignal(address.value.query.get('search') ?? '');
  const hits = useComputed(() => (search.value === '' ? null : hitsOf(search.value)));
  const shownLine = useSignal<ShownLine | null>(null);
  const section = useRef<HTMLDivElement>(null);
  return (
    <div class="log-view pod-logs" ref={section}>
      <Bar
        sources={<Sources log={log} logs={logs} />}
        all={[]}
        wanted={null}
        isApart={false}
        mayBeApart={false}
        choices={choices}
        pane={pane}
        search={search}
        evidence={undefined}
        onFullScreen={() => void toggleFullScreen(section.current)}
        onDownload={() => save(new Blob([output.bytes()]), `${log.id.replaceAll('/', '-')}.log`)}
      />
      {failure !== null && <Failure lines={failure} retry={null} />}
      <div class="log-panes">
        <div class="log-column">
          <Pane
            state={pane}
            label="Log lines"
            wraps={choices.wraps.value}
            showsTimes={choices.showsTimes.value}
            hits={hits.value}
            onShowAll={(_, line) => (shownLine.value = { read: output.read, line })}
            onPosition={() => undefined}
          />
        </div>
      </div>
      {shownLine.value !== null && <WholeLine shown={shownLine.value} onClose={() => (shownLine.value = null)} />}
    </div>
  );
}

function Sources({ log, logs }: Pick<OutputProps, 'log' | 'logs'>) {
  return (
    <select
      aria-label="Pod and container"
      value={log.id}
      onChange={({ currentTarget }) => changeQuery({ log: currentTarget.value })}
    >
      {logs.map(({ id, pod, container, isPrevious }) => (
        <option key={id} value={id}>
          {escapeLine(`${pod} ${container}`)}
          {isPrevious && ', before its last restart'}
        </option>
      ))}
    </select>
  );
}

/** A pane over the newest lines, which begins again after a failure. */
function usePane(
  { job, context, namespace, archivedAt }: ClusterJobView,
  { id, pod, container, isPrevious }: ContainerLog,
) {
  const turn = useSignal(0);
  const failure = useSignal<readonly string[] | null>(null);
  const isArchived = archivedAt !== null;
  const opened = useMemo(() => {
    let retry: ReturnType<typeof setTimeout> | undefined;
    const output = openPodOutput({
      job: job.name,
      id,
      async open(signal) {
        if (isArchived) return client.readArchivedLog(job.uid, { pod, container }, { tail: tailLines });
        const query = isPrevious ? { previous: true, tail: tailLines } : { follow: true, tail: tailLines };
        const { bytes } = await client.open(clusterRoutes.logs, [context, namespace, pod, container, query], signal);
        return bytes;
      },
      onGrown() {
        failure.value = null;
        pane.update([output.ref()]);
      },
      onFailure(error) {
        failure.value = errorLines(error);
        retry = setTimeout(() => (turn.value += 1), retryTime);
      },
    });
    const pane = createPane([output.ref()], { readOf: () => output.read }, true, null);
    return {
      output,
      pane,
      close() {
        clearTimeout(retry);
        output.close();
        pane.close();
      },
    };
  }, [job.uid, id, isArchived, turn.value]);
  useEffect(() => () => opened.close(), [opened]);
  return { ...opened, failure: failure.value };
}
