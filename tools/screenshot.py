"""Renew the screenshot of the report page in the README.

.venv/bin/python tools/screenshot.py docs/runs/demo docs/images/report-page.png
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
WIDTH, HEIGHT = 1280, 1000


def main(run: str, picture: str) -> None:
    """Build the report of a copy of the run, and save the top of its page."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / Path(run).name
        shutil.copytree(run, copy)
        fab = Path(sys.executable).with_name("fab")
        done = subprocess.run([fab, "report.build", "--run", copy], cwd=ROOT, check=False)
        if done.returncode not in (0, 5):  # 5: some points have no result
            sys.exit(done.returncode)
        with sync_playwright() as playwright:
            found = shutil.which("chromium-headless-shell") or shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.goto((copy / "report" / "index.html").as_uri())
            page.wait_for_selector(".plot-container")
            page.screenshot(path=picture)
            browser.close()


if __name__ == "__main__":
    if len(sys.argv) != len(("program", "run", "picture")):
        sys.exit(
            "tools/screenshot.py: expected a run and a picture. Run '.venv/bin/python "
            "tools/screenshot.py docs/runs/demo docs/images/report-page.png'"
        )
    main(*sys.argv[1:])
