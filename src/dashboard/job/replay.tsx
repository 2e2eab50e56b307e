// Replay: the recorded passes of the controller over a job, in pages: what it saw, and what it decided.

import { escapeLine, formatTime } from '../../app/format.ts';
import { passRows, summarizePasses, unreadableNote } from '../../app/pass-rows.ts';
import type { PassList, PassView } from '../../app/client.ts';
import { second, type Duration } from '../../core/model/time.ts';
import { version } from '../../version.ts';
import { now } from '../clock.ts';
import { address, changeQuery } from '../location.ts';
import { Facts } from '../parts/facts.tsx';
import { Empty, Failure } from '../parts/messages.tsx';
import { client } from '../session.ts';
import type { SectionProps } from './page.tsx';
import { Pager } from './pager.tsx';
import { useRead, useRefresh } from './read.ts';
import { shownAttempt } from './sections.ts';

const pageSize = 40;
/** Between two reads, because each reads all recorded passes of the job. */
const refreshTime: Duration = 15 * second;

export function ReplaySection({ view, log }: SectionProps) {
  const attempt = shownAttempt();
  const decide = address.value.query.get('decide') === 'yes';
  const newest = log.events?.at(-1)?.seq ?? 0;
  const state = useRead(`${view.id} ${attempt} ${decide}`, null, async () => ({
    list: await client.passes(view.id, { ...(attempt === null ? {} : { attempt }), ...(decide ? { decide } : {}) }),
    newest,
  }));
  const { value, failure, again, isReading } = state;
  useRefresh(state, newest > (value?.newest ?? 0), refreshTime);
  return (
    <section aria-label="Replay">
      <div class="bar">
        <h2>Replay</h2>
        <div class="toggles">
          <button aria-pressed={decide} onClick={() => changeQuery({ decide: decide ? null : 'yes', page: null })}>
            Only what this version decides differently
          </button>
        </div>
        <span class="quiet">times in UTC</span>
      </div>
      {failure !== null && <Failure lines={failure} retry={again} />}
      {value === undefined && isReading && <p class="quiet">Reading the recorded passes…</p>}
      {value !== undefined && <Passes list={value.list} decide={decide} />}
    </section>
  );
}

function Passes({ list, decide }: { readonly list: PassList; readonly decide: boolean }) {
  const note = unreadableNote(list);
  return (
    <>
      {decide && <p>{summarizePasses(list, version)}</p>}
      {note !== null && <p class="quiet">{note}</p>}
      {list.passes.length > 0 ? (
        <Pager label="passes" rows={list.passes} pageSize={pageSize}>
          {(shown) => (
            <ol class="passes">
              {shown.map((pass) => (
                <Pass key={pass.pass} pass={pass} />
              ))}
            </ol>
          )}
        </Pager>
      ) : (
        !decide && <Empty command={`jobman replay ${list.id}`}>No pass is recorded.</Empty>
      )}
    </>
  );
}

function Pass({ pass }: { readonly pass: PassView }) {
  const { title, description, rows } = passRows(pass);
  return (
    <li>
      <p>
        <span class="quiet">{formatTime(pass.at, now.peek())}</span> <b>{escapeLine(title)}</b>
        {description !== null && `: ${escapeLine(description)}`}
      </p>
      <Facts rows={rows} />
    </li>
  );
}
