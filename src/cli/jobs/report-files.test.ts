import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { checkReportFiles } from './report-files.ts';

test('a report file is refused before the run if its kind is unknown or its folder is missing', () => {
  const folder = mkdtempSync(join(tmpdir(), 'remuster-report-'));
  try {
    checkReportFiles([join(folder, 'r.html'), join(folder, 'r.json')]);
    assert.throws(() => checkReportFiles([join(folder, 'r.txt')]), /ends in .html or .json, not/);
    assert.throws(() => checkReportFiles([join(folder, 'none', 'r.html')]), /there is no folder .*none/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
