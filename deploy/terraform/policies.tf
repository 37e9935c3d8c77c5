# Policies for the roles of your platform: attach each to the role of its program, and
# the operator's to people. They are the files of deploy/policies, which are held to
# the calls that the programs make.

locals {
  arns = {
    account          = data.aws_caller_identity.current.account_id
    bus_arn          = aws_cloudwatch_event_bus.rail.arn
    rule_arn         = aws_cloudwatch_event_rule.nudges.arn
    rules_arn        = "${replace(aws_cloudwatch_event_bus.rail.arn, ":event-bus/", ":rule/")}/*"
    event_source     = var.event_source
    queue_arn        = aws_sqs_queue.nudges.arn
    dead_letters_arn = aws_sqs_queue.dead_letters.arn
    undelivered_arn  = aws_sqs_queue.undelivered.arn
  }

  # What a key of your own asks of each role besides.
  kms_actions = {
    relay     = []
    relay-sqs = ["kms:Decrypt", "kms:GenerateDataKey"]
    worker    = ["kms:Decrypt"]
    operator  = ["kms:Decrypt", "kms:GenerateDataKey"]
  }

  policies = {
    for role, actions in local.kms_actions : role => merge(local.written[role], {
      Statement = concat(
        local.written[role].Statement,
        [for s in [{ Sid = "UseTheKey", Effect = "Allow", Action = actions, Resource = var.kms_key_arn }] : s if var.kms_key_arn != null && length(actions) > 0],
      )
    })
  }

  written = { for role in keys(local.kms_actions) : role => jsondecode(templatefile("${path.module}/../policies/${role}.json", local.arns)) }
}

resource "aws_iam_policy" "role" {
  for_each = local.policies

  name        = "${var.name}-${each.key}"
  description = "Brief rail: what ${each.key} may do with AWS, and nothing else"
  policy      = jsonencode(each.value)
  tags        = var.tags
}
