/** The report as page and text: complete, self-contained, and with everything from the job escaped. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildReport } from '../../jobs/report/report.ts';
import { Summary } from '../../jobs/report/summary.ts';
import { deriveFacts } from '../../runner/definition/fact-derivation.ts';
import { workflow } from '../../runner/definition/workflow.ts';
import { renderReportPage } from './report-page.ts';
import { formatReport } from './report-text.ts';

const malicious = '<img src=x onerror=alert(1)>"\'&';

function report(): ReturnType<typeof buildReport> {
  const summary = new Summary();
  summary.iterations = 10;
  summary.failed = 1;
  summary.step('browse').durations.record(1_500);
  summary.check(malicious, false);
  summary.error('browse', malicious, () => 'checkout.ts:3');
  summary.metric('carts', 'count').total += 3;
  const facts = deriveFacts(
    workflow('checkout', { duration: '1s', thresholds: { failed: ['rate<1%'] }, steps: { browse: () => 1 } }),
  );
  return buildReport({
    ...{ jobId: 'j1', name: 'checkout', status: 'FAILED', elapsedMs: 61_000, attempts: [] },
    workflows: [{ facts, status: 'FAILED', summary, completed: 10, failed: 1, elapsedMs: 60_000 }],
    incidents: [{ time: '2026-01-01T10:00:00.000Z', type: 'worker.lost', node: malicious, effect: 'unit 1 restarts' }],
    error: { code: 'RETRIES_EXHAUSTED', message: malicious },
  });
}

test('the report page has all sections, no script and no external resource', () => {
  const samples = [1, 2, 3].map((n) => ({ elapsedMs: n * 1_000, ratePerSecond: n, p50: n, p99: n * 2, failed: 0 }));
  const page = renderReportPage(report(), samples);
  for (const part of [
    'FAILED',
    'checkout / browse',
    'failed: rate',
    'worker.lost',
    'checkout.ts:3',
    'carts',
    '1 m 1 s',
  ])
    assert.ok(page.includes(part), part);
  assert.equal(page.split('<svg').length, 3);
  assert.ok(!page.includes('<img') && !page.includes('<script') && !/https?:\/\//.test(page));
  assert.ok(page.includes('&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;'));
  assert.match(page, /content-security-policy" content="default-src 'none'/);
  assert.ok(!renderReportPage(report(), []).includes('<svg'));
});

test('the report text has status, errors, thresholds and incidents', () => {
  const text = formatReport(report());
  assert.match(text, /^j1 {2}FAILED {2}1 m 1 s\n10 completed, 1 failed/);
  assert.match(text, /RETRIES_EXHAUSTED/);
  assert.match(text, /1 x {2}checkout\/browse: <img .* \(checkout\.ts:3\)/);
  assert.match(text, /FAILED {2}failed: rate<1% {2}\(0\.1\)/);
  assert.match(text, /worker\.lost .* unit 1 restarts/);
});

test('report text and page list failed items and count them by message', () => {
  const summary = new Summary();
  const bad = (index: number) => ({ index, error: { name: 'TypeError', message: malicious, at: 'b.ts:3' } });
  for (let index = 0; index < 7; index++) summary.error('each', `TypeError: ${malicious}`, () => 'b.ts:3');
  const facts = deriveFacts(workflow('resize', { items: 100, onItemError: 'continue', each: () => 1 }));
  const made = buildReport({
    ...{ jobId: 'j1', name: 'resize', status: 'PARTIAL', elapsedMs: 1_000, attempts: [], incidents: [] },
    workflows: [
      {
        facts,
        status: 'PARTIAL',
        summary,
        completed: 90,
        failed: 10,
        elapsedMs: 900,
        failures: [0, 1, 2, 3, 4, 5, 6].map(bad),
      },
    ],
    error: { code: 'PARTIAL', message: 'resize: 10 of 100 items failed' },
  });
  assert.deepEqual(made.failures[0]?.messages, [{ message: `TypeError: ${malicious}`, at: 'b.ts:3', count: 7 }]);
  assert.equal(made.failures[0]?.other, 3);
  const text = formatReport(made);
  assert.match(
    text,
    /PARTIAL[\s\S]*90 completed, 10 failed[\s\S]*7 x {2}resize\/each: TypeError: <img[\s\S]*3 x {2}other/,
  );
  assert.match(text, /Failed items of resize \(5 of 10 are listed\):\n {2}0 {2}TypeError: <img .* \(b\.ts:3\)/);
  const page = renderReportPage(made, []);
  assert.ok(page.includes('10 failed items; 7 of 10 are listed') && !page.includes('<img'));
  assert.ok(page.includes('<td>6</td><td>TypeError: &lt;img'));
});

test('report page and text have no control characters, and show the name of an error without a message', () => {
  const summary = new Summary();
  summary.error('each', 'TypeError', () => 'b.ts:3');
  const facts = deriveFacts(workflow('odd', { items: 2, onItemError: 'continue', each: () => 1 }));
  const items = [
    { index: 0, error: { name: 'TypeError', message: '', at: 'b.ts:3' } },
    { index: 1, error: { name: 'Error', message: 'a\u001b[31m\u0000\u009bb\nc' } },
  ];
  const made = buildReport({
    ...{ jobId: 'j1', name: 'odd', status: 'PARTIAL', elapsedMs: 1_000, attempts: [], incidents: [] },
    workflows: [{ facts, status: 'PARTIAL', summary, completed: 0, failed: 2, elapsedMs: 900, failures: items }],
  });
  const page = renderReportPage(made, []);
  // oxlint-disable-next-line no-control-regex
  assert.doesNotMatch(page, /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
  assert.match(page, /<td>TypeError<\/td>/);
  assert.match(page, /a\?\[31m\?\?b\nc/);
  assert.match(formatReport(made), /\n {2}0 {2}TypeError \(b\.ts:3\)\n/);
});
