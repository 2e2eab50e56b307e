// Replay: the recorded passes of the controller over a job, in pages: what it saw, and what it decided.

import { escapeLine, formatTime, pluralize } from '../../app/format.ts';
import { passRows } from '../../app/pass-rows.ts';
import type { PassView } from '../../app/client.ts';
import { now } from '../clock.ts';
import { address, changeQuery } from '../location.ts';
import { Empty, Failure } from '../parts/messages.tsx';
import { client } from '../session.ts';
import type { SectionProps } from './page.tsx';
import { Pager } from './pager.tsx';
import { useRead } from './read.ts';
import { shownAttempt } from './sections.ts';

const pageSize = 40;

export function ReplaySection({ view, log }: SectionProps) {
  const attempt = shownAttempt();
  const decide = address.value.query.get('decide') === 'yes';
  const newest = log.events?.at(-1)?.seq ?? 0;
  const { value, failure, again, isReading } = useRead(`${view.id} ${attempt} ${decide}`, newest, () =>
    client.passes(view.id, { ...(attempt === null ? {} : { attempt }), ...(decide ? { decide } : {}) }),
  );
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
      {value !== undefined && (
        <>
          {value.unreadable > 0 && (
            <p class="quiet">
              The inputs of {pluralize(value.unreadable, 'pass', 'passes')} cannot be read: another version of jobman
              recorded them or changed the job after them.
            </p>
          )}
          {value.passes.length === 0 ? (
            decide ? (
              <p>
                This version makes the same decision in {pluralize(value.readable, 'recorded pass', 'recorded passes')}.
              </p>
            ) : (
              <Empty command={`jobman replay ${view.id}`}>No pass is recorded.</Empty>
            )
          ) : (
            <Pager label="passes" rows={value.passes} pageSize={pageSize}>
              {(shown) => (
                <ol class="passes">
                  {shown.map((pass) => (
                    <Pass key={pass.pass} pass={pass} />
                  ))}
                </ol>
              )}
            </Pager>
          )}
        </>
      )}
    </section>
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
      <dl class="facts">
        {rows
          .filter(([, texts]) => texts.length > 0)
          .map(([label, texts], index) => (
            <div key={index}>
              <dt>{label}</dt>
              <dd>
                {texts.map((text, at) => (
                  <p key={at}>{escapeLine(text)}</p>
                ))}
              </dd>
            </div>
          ))}
      </dl>
    </li>
  );
}
