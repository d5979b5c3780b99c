"""Headers and actions of jobs apart from their options, and encrypted."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

HIDDEN = ("headers", "actions")
GOES_ON = ("queued", "scraping")
# Lists that are not empty, as json.dumps writes them.
FULL = {"headers": '%"headers": [[%', "actions": '%"actions": [{%'}

JOBS = """
SELECT id, state, options FROM job
WHERE options LIKE :headers OR options LIKE :actions
"""
ROWS = """
SELECT DISTINCT frontier.job_id, frontier.options, job.state
FROM frontier JOIN job ON job.id = frontier.job_id
WHERE frontier.options LIKE :headers OR frontier.options LIKE :actions
"""
HOOKS = """
SELECT webhook.job_id, webhook.config, job.state, EXISTS (
  SELECT 1 FROM delivery WHERE delivery.job_id = webhook.job_id AND delivery.state <> 1
) AS is_waiting
FROM webhook JOIN job ON job.id = webhook.job_id
WHERE webhook.config LIKE :headers
"""
ADD = sa.text("INSERT INTO secret (job_id, part, body) VALUES (:job_id, :part, :body)")


def upgrade() -> None:
    op.create_table(
        "secret",
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("part", sa.String(40), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_secret_job_id"),
        sa.PrimaryKeyConstraint("job_id", "part", name="pk_secret"),
    )
    connection = op.get_bind()
    hide_options(connection)
    hide_rows(connection)
    hide_webhooks(connection)


def hide_options(connection: sa.Connection) -> None:
    for row in connection.execute(sa.text(JOBS), FULL).all():
        options = json.loads(row.options)
        found = hide(options.get("scrape", {}))
        if row.state in GOES_ON:
            seal(connection, row.id, found)
        connection.execute(
            sa.text("UPDATE job SET options = :options WHERE id = :id"),
            {"id": row.id, "options": json.dumps(options)},
        )


def hide_rows(connection: sa.Connection) -> None:
    for number, row in enumerate(connection.execute(sa.text(ROWS), FULL).all()):
        options = json.loads(row.options)
        found = hide(options)
        if row.state in GOES_ON:
            options["secrets"] = f"old {number}"
            seal(connection, row.job_id, found, options["secrets"])
        connection.execute(
            sa.text(
                "UPDATE frontier SET options = :new"
                " WHERE job_id = :job_id AND options = :old"
            ),
            {"job_id": row.job_id, "old": row.options, "new": json.dumps(options)},
        )


def hide_webhooks(connection: sa.Connection) -> None:
    for row in connection.execute(sa.text(HOOKS), {"headers": FULL["headers"]}).all():
        config = json.loads(row.config)
        if row.state in GOES_ON or row.is_waiting:
            seal(connection, row.job_id, config["headers"], "webhook")
        config["headers"] = [[name, ""] for name, _ in config["headers"]]
        connection.execute(
            sa.text("UPDATE webhook SET config = :config WHERE job_id = :job_id"),
            {"job_id": row.job_id, "config": json.dumps(config)},
        )


def hide(options: dict[str, object]) -> dict[str, object]:
    found = {name: options[name] for name in HIDDEN if options.get(name)}
    options.update({name: [] for name in found})
    return found


def seal(
    connection: sa.Connection, job_id: str, found: object, part: str = "options"
) -> None:
    box = connection.get_execution_options()["box"]
    row = {"job_id": job_id, "part": part, "body": box.seal(found)}
    connection.execute(ADD, row)
